// One way of bounded concurrent execution in Go, run once on one workload. The words are those of ../src/main.rs.
//
// Every peer keeps at most k processors at work, in goroutines, and finishes each result on the caller's goroutine as
// soon as it is known there.
package main

import (
	"fmt"
	"os"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

type call struct {
	degree     int
	objects    uint64
	iterations uint64
	sleep      time.Duration
}

type outcome struct {
	value   uint64
	endedNs int64 // 0 for an empty processor
}

var epoch = time.Now()

func nowNs() int64 { return int64(time.Since(epoch)) }

//go:noinline
func burn(x uint64, iterations uint64) uint64 {
	for ; iterations > 0; iterations-- {
		x = (x^(x>>29))*6364136223846793005 + 1442695040888963407
	}
	return x
}

func (c *call) empty() bool { return c.iterations == 0 && c.sleep == 0 }

func (c *call) process(object uint64) outcome {
	if c.empty() {
		return outcome{object, 0}
	}
	value := burn(object, c.iterations)
	if c.sleep > 0 {
		time.Sleep(c.sleep)
	}
	return outcome{value, nowNs()}
}

type finisher struct {
	count, sum uint64
	waitsNs    []int64
}

func (f *finisher) finish(o outcome) {
	f.count++
	f.sum += o.value
	if o.endedNs != 0 {
		f.waitsNs = append(f.waitsNs, nowNs()-o.endedNs)
	}
}

// k goroutines between two channels; never more than window objects out.
func workers(window int) func(*call, *finisher) {
	return func(c *call, f *finisher) {
		if window == 0 {
			window = c.degree
		}
		objects, results := make(chan uint64, window), make(chan outcome, window)
		for range c.degree {
			go func() {
				for object := range objects {
					results <- c.process(object)
				}
			}()
		}
		next, out := uint64(0), 0
		for {
			for ; out < window && next < c.objects; next++ {
				objects <- next
				out++
			}
			if out == 0 {
				break
			}
			f.finish(<-results)
			out--
		}
		close(objects)
	}
}

// A goroutine for each object, made when its turn comes.
func goroutines(c *call, f *finisher) {
	results := make(chan outcome, c.degree)
	out := 0
	for object := range c.objects {
		if out == c.degree {
			f.finish(<-results)
			out--
		}
		go func() { results <- c.process(object) }()
		out++
	}
	for ; out > 0; out-- {
		f.finish(<-results)
	}
}

// errgroup with a limit of k.
func group(c *call, f *finisher) {
	results := make(chan outcome, c.degree)
	var g errgroup.Group
	g.SetLimit(c.degree)
	out := 0
	for object := range c.objects {
		for !g.TryGo(func() error { results <- c.process(object); return nil }) {
			if out == 0 {
				// Every result is here, and a goroutine has yet to give its place back.
				runtime.Gosched()
				continue
			}
			f.finish(<-results)
			out--
		}
		out++
	}
	for ; out > 0; out-- {
		f.finish(<-results)
	}
	_ = g.Wait()
}

var peers = map[string]func(*call, *finisher){
	"go-workers-k":    workers(0),
	"go-workers-1024": workers(1024),
	"go-goroutines":   goroutines,
	"go-errgroup":     group,
}

func cpuNs() int64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return u.Utime.Nano() + u.Stime.Nano()
}

// Not by getrusage, whose peak begins with that of the program that started this one.
func peakRssKib() (kib int64) {
	status, _ := os.ReadFile("/proc/self/status")
	if _, after, found := strings.Cut(string(status), "VmHWM:"); found {
		_, _ = fmt.Sscan(after, &kib)
	}
	return kib
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "calibrate" {
		const iterations = 100_000
		least := time.Hour
		for seed := range uint64(60) {
			start := time.Now()
			burn(seed, iterations)
			least = min(least, time.Since(start))
		}
		fmt.Printf("{\"ns_per_iteration\": %g}\n", float64(least)/iterations)
		return
	}
	if len(os.Args) != 6 || peers[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: PEER DEGREE OBJECTS ITERATIONS SLEEP_US | calibrate")
		os.Exit(2)
	}
	var numbers [4]uint64
	for i := range numbers {
		n, err := strconv.ParseUint(os.Args[2+i], 10, 63)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		numbers[i] = n
	}
	c := call{int(numbers[0]), numbers[1], numbers[2], time.Duration(numbers[3]) * time.Microsecond}
	run := peers[os.Args[1]]
	newFinisher := func() *finisher {
		f := finisher{}
		if !c.empty() {
			f.waitsNs = make([]int64, 0, c.objects)
		}
		return &f
	}
	warmUp := c
	warmUp.objects = max(c.objects/10, 1)
	run(&warmUp, newFinisher())
	f := newFinisher()
	cpuBefore := cpuNs()
	start := time.Now()
	run(&c, f)
	elapsed := time.Since(start)
	cpu := cpuNs() - cpuBefore
	if f.count != c.objects {
		panic("objects lost or finished twice")
	}
	fmt.Printf("{\"elapsed_ns\": %d, \"cpu_ns\": %d, \"peak_rss_kib\": %d", elapsed.Nanoseconds(), cpu, peakRssKib())
	if n := len(f.waitsNs); n > 0 {
		w := f.waitsNs
		sort.Slice(w, func(i, j int) bool { return w[i] < w[j] })
		fmt.Printf(", \"wait_p50_ns\": %d, \"wait_p99_ns\": %d, \"wait_max_ns\": %d", w[n/2], w[n*99/100], w[n-1])
	}
	fmt.Println("}")
}
