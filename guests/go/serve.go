// A server with a goroutine for each connection; for chat with two, one that receives and one that sends.
//
// `echo` sends back what comes. `chat` is that of guests/c/servers/chat_threads.c: `join NAME` is answered with `joined
// NAME`, and each further line goes to the others in the room.
package main

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"sync"
)

const (
	mostLine = 16384
	queue    = 1024
)

func serve(design, protocol, port string) {
	if design != "goroutine-per-connection" {
		fail("there is no design %s", design)
	}
	handlers := map[string]func(net.Conn){"echo": echo, "chat": chat}
	handle := handlers[protocol]
	if handle == nil {
		fail("there is no protocol %s", protocol)
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:"+port)
	if err != nil {
		fail("listening: %v", err)
	}
	fmt.Printf("listening on %s\n", listener.Addr())
	for {
		client, err := listener.Accept()
		if err != nil {
			fail("accepting: %v", err)
		}
		go handle(client)
	}
}

func echo(client net.Conn) {
	defer client.Close()
	bytes := make([]byte, 8192)
	for {
		got, err := client.Read(bytes)
		if err != nil {
			return
		}
		if _, err := client.Write(bytes[:got]); err != nil {
			return
		}
	}
}

// Its lock keeps its members and the order of what is said there.
type room struct {
	lock    sync.Mutex
	members map[*member]struct{}
}

type member struct {
	lines chan []byte
}

var (
	roomsLock sync.Mutex
	rooms     = map[string]*room{}
)

func roomNamed(name string) *room {
	roomsLock.Lock()
	defer roomsLock.Unlock()
	found := rooms[name]
	if found == nil {
		found = &room{members: map[*member]struct{}{}}
		rooms[name] = found
	}
	return found
}

func (in *room) join(self *member, answer []byte) {
	in.lock.Lock()
	defer in.lock.Unlock()
	self.lines <- answer
	in.members[self] = struct{}{}
}

func (in *room) leave(self *member) {
	in.lock.Lock()
	defer in.lock.Unlock()
	delete(in.members, self)
}

func (in *room) toOthers(self *member, line []byte) {
	in.lock.Lock()
	defer in.lock.Unlock()
	for other := range in.members {
		if other != self {
			other.lines <- line
		}
	}
}

func chat(client net.Conn) {
	self := &member{lines: make(chan []byte, queue)}
	go send(client, self.lines)
	defer close(self.lines)
	input := bufio.NewReaderSize(client, mostLine)
	greeting, err := input.ReadSlice('\n')
	if err != nil {
		return
	}
	name, isGreeting := strings.CutPrefix(strings.TrimRight(string(greeting), "\r\n"), "join ")
	if !isGreeting || name == "" {
		return
	}
	in := roomNamed(name)
	in.join(self, []byte("joined "+name+"\n"))
	defer in.leave(self)
	for {
		line, err := input.ReadSlice('\n')
		if err != nil {
			return
		}
		in.toOthers(self, append([]byte(nil), line...))
	}
}

// Until the queue is closed; what a client that has gone does not take is taken from it.
func send(client net.Conn, lines <-chan []byte) {
	defer client.Close()
	isOpen := true
	for line := range lines {
		if isOpen {
			_, err := client.Write(line)
			isOpen = err == nil
		}
	}
}
