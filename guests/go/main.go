// The cases of the experiments as a Go program would have them: goroutines.
//
//	guest create goroutine COUNT                   makes and ends COUNT units, one after the other, in ten batches
//	guest ring goroutine RING WARM_NS TIMED_NS     a token goes round RING units by channels
//	guest idle goroutine COUNT                     keeps COUNT units that wait, until its standard input ends
//	guest most goroutine LIMIT                     makes LIMIT units that wait: the runtime refuses none
//	guest pool goroutine DEGREE KIND MS/MS/…       runs computations, DEGREE at a time: KIND is cpu or io
//	guest print goroutine UNITS PRINTS TEXT LOG    prints lines into what standard input is, and into the file LOG, or -
//	guest past goroutine COUNT                     makes units that wait in the kernel once its input has ended
//	guest serve DESIGN PROTOCOL PORT               a server (serve.go): says where it listens, serves until it is ended
//
// It answers as the programs in C do (guests/c/guest.h): one line, `done NAME=NUMBER …` or `error WORDS`. `idle` and
// `past` say `ready made=NUMBER` first.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const batches = 10

// A figure with its name.
type figure struct {
	name   string
	number int64
}

func done(figures ...figure) {
	fmt.Print("done")
	for _, of := range figures {
		fmt.Printf(" %s=%d", of.name, of.number)
	}
	fmt.Println()
}

func create(count int) {
	each := count / batches
	figures := []figure{{"made", int64(each * batches)}}
	ended := make(chan struct{})
	before := time.Now()
	for batch := 1; batch <= batches; batch++ {
		for i := 0; i < each; i++ {
			go func() { ended <- struct{}{} }()
			<-ended
		}
		after := time.Now()
		figures = append(figures, figure{fmt.Sprintf("batch_%d_ns", batch), after.Sub(before).Nanoseconds()})
		before = after
	}
	done(figures...)
}

// Unit 0 has the clock, and a lap is a token that comes back.
func ring(size int, warm, timed time.Duration) {
	channels := make([]chan int, size)
	for i := range channels {
		channels[i] = make(chan int)
	}
	var all sync.WaitGroup
	for i := 1; i < size; i++ {
		own, following := channels[i], channels[(i+1)%size]
		all.Add(1)
		go func() {
			defer all.Done()
			for token := range own {
				following <- token
			}
			close(following)
		}()
	}
	last, first := channels[0], channels[1%size]
	laps := func(count int) {
		for i := 0; i < count; i++ {
			first <- i
			<-last
		}
	}
	// Twice as many laps as before until they have lasted for the warm-up; then so many again and again, timed.
	count, begun := 1, time.Now()
	for ; time.Since(begun) < warm; count *= 2 {
		laps(count)
	}
	made := 0
	begun = time.Now()
	for ; time.Since(begun) < timed; made += count {
		laps(count)
	}
	wall := time.Since(begun)
	close(first)
	<-last
	all.Wait()
	done(figure{"wall_ns", wall.Nanoseconds()}, figure{"hops", int64(made) * int64(size)})
}

func keep(count int, ready func()) {
	gate := make(chan struct{})
	var waiting, all sync.WaitGroup
	waiting.Add(count)
	all.Add(count)
	for i := 0; i < count; i++ {
		go func() {
			waiting.Done()
			<-gate
			all.Done()
		}()
	}
	waiting.Wait()
	ready()
	close(gate)
	all.Wait()
}

func idle(count int) {
	keep(count, func() {
		runtime.GC()
		fmt.Printf("ready made=%d\n", count)
		io.Copy(io.Discard, os.Stdin)
		done(figure{"made", int64(count)})
	})
}

func most(limit int) {
	keep(limit, func() { done(figure{"made", int64(limit)}, figure{"refused", 0}) })
}

// Each unit waits in a system call, so that it keeps a thread of the kernel. The runtime returns no error for one that
// cannot be made: it ends the program.
func past(count int) {
	var pipe [2]int
	if err := syscall.Pipe(pipe[:]); err != nil {
		fail("making a pipe: %v", err)
	}
	fmt.Println("ready made=0")
	io.Copy(io.Discard, os.Stdin)
	var waiting atomic.Int64
	var all sync.WaitGroup
	all.Add(count)
	begun := time.Now()
	for i := 0; i < count; i++ {
		go func() {
			defer all.Done()
			waiting.Add(1)
			syscall.Read(pipe[0], make([]byte, 1))
		}()
	}
	took := time.Since(begun)
	for ms := 0; waiting.Load() < int64(count) && ms < 500; ms++ {
		time.Sleep(time.Millisecond)
	}
	has := waiting.Load()
	syscall.Close(pipe[1])
	all.Wait()
	ended := make(chan struct{})
	go func() { ended <- struct{}{} }()
	<-ended
	done(figure{"made", int64(count)}, figure{"begun", has}, figure{"refused", 0},
		figure{"took_ns", took.Nanoseconds()}, figure{"again", 1})
}

var sink uint64

// Burns CPU time of its own. Nothing tells that of a goroutine, so it is as many steps as take so long alone.
func burn(steps int64) {
	value := uint64(1)
	for step := int64(0); step < steps; step++ {
		value = value*6364136223846793005 + uint64(step)
	}
	if value == 0 {
		sink = value
	}
}

// The most of a few tries: whatever comes between makes it less.
func stepsOfMillisecond() float64 {
	const steps = 5_000_000
	most := 0.0
	for round := 0; round < 8; round++ {
		begun := time.Now()
		burn(steps)
		if rate := steps * 1e6 / float64(time.Since(begun).Nanoseconds()); rate > most {
			most = rate
		}
	}
	return most
}

func pool(degree int, kind string, lengths []float64) {
	steps := 0.0
	if kind == "cpu" {
		steps = stepsOfMillisecond()
	}
	ends := make([]time.Duration, len(lengths))
	indices := make(chan int)
	var all sync.WaitGroup
	begun := time.Now()
	for i := 0; i < degree; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for i := range indices {
				if kind == "cpu" {
					burn(int64(lengths[i] * steps))
				} else {
					time.Sleep(time.Duration(lengths[i] * float64(time.Millisecond)))
				}
				ends[i] = time.Since(begun)
			}
		}()
	}
	for i := range lengths {
		indices <- i
	}
	close(indices)
	all.Wait()
	figures := []figure{{"elapsed_ns", 0}}
	for i, end := range ends {
		if end.Nanoseconds() > figures[0].number {
			figures[0].number = end.Nanoseconds()
		}
		figures = append(figures, figure{fmt.Sprintf("turnaround_%d_ns", i+1), end.Nanoseconds()})
	}
	done(figures...)
}

// A file in blocks, that units share as a program's log is.
type log struct {
	lock sync.Mutex
	into *bufio.Writer
}

func (of *log) Write(line []byte) (int, error) {
	of.lock.Lock()
	defer of.lock.Unlock()
	return of.into.Write(line)
}

func print(count, prints int, text, path string) {
	into := []io.Writer{os.Stdin}
	if path != "-" {
		file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			fail("opening the log file: %v", err)
		}
		into = append(into, &log{into: bufio.NewWriterSize(file, 4096)})
	}
	var bytes atomic.Int64
	var all sync.WaitGroup
	all.Add(count)
	begun := time.Now()
	for i := 0; i < count; i++ {
		go func() {
			defer all.Done()
			for counter := 0; counter < prints; counter++ {
				for _, of := range into {
					if _, err := fmt.Fprintf(of, "[%d]%s\n", counter, text); err != nil {
						fail("printing a line: %v", err)
					}
				}
				bytes.Add(int64(len(strconv.Itoa(counter)) + len(text) + 3))
			}
		}()
	}
	all.Wait()
	fmt.Fprintln(os.Stdin, "Okay")
	if path != "-" {
		if err := into[1].(*log).into.Flush(); err != nil {
			fail("printing into the log file: %v", err)
		}
	}
	done(figure{"wall_ns", time.Since(begun).Nanoseconds()}, figure{"bytes", bytes.Load()})
}

func fail(words string, of ...any) {
	fmt.Println("error", fmt.Sprintf(words, of...))
	os.Exit(1)
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	if err != nil {
		fail("%s is no number", text)
	}
	return value
}

func main() {
	if len(os.Args) < 4 {
		fail("%d arguments; it takes a case, a unit and more", len(os.Args)-1)
	}
	if os.Args[1] == "serve" {
		port := "0"
		if len(os.Args) > 4 {
			port = os.Args[4]
		}
		serve(os.Args[2], os.Args[3], port)
	}
	if os.Args[2] != "goroutine" {
		fail("there is no unit %s", os.Args[2])
	}
	count, rest := number(os.Args[3]), os.Args[4:]
	switch os.Args[1] {
	case "create":
		create(count)
	case "ring":
		ring(count, time.Duration(number(rest[0])), time.Duration(number(rest[1])))
	case "idle":
		idle(count)
	case "most":
		most(count)
	case "pool":
		var lengths []float64
		for _, text := range strings.Split(rest[1], "/") {
			length, err := strconv.ParseFloat(text, 64)
			if err != nil {
				fail("%s is no number", text)
			}
			lengths = append(lengths, length)
		}
		pool(count, rest[0], lengths)
	case "past":
		past(count)
	case "print":
		print(count, number(rest[0]), rest[1], rest[2])
	default:
		fail("there is no case %s", os.Args[1])
	}
}
