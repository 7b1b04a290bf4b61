// What the guest in guests/go measures, as a benchmark of Go's own: `go test -bench .` here.
package units

import (
	"sync"
	"testing"
	"time"
)

// A goroutine, made and ended.
func BenchmarkCreate(b *testing.B) {
	ended := make(chan struct{})
	for i := 0; i < b.N; i++ {
		go func() { ended <- struct{}{} }()
		<-ended
	}
}

// A token to another goroutine and back: two hops.
func BenchmarkLap(b *testing.B) {
	there, back := make(chan int), make(chan int)
	go func() {
		defer close(back)
		for token := range there {
			back <- token
		}
	}()
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		there <- i
		<-back
	}
	b.StopTimer()
	close(there)
	<-back
}

// Eight goroutines that take eight waits of 20 ms from a channel.
func BenchmarkPool(b *testing.B) {
	for i := 0; i < b.N; i++ {
		waits := make(chan time.Duration)
		var all sync.WaitGroup
		all.Add(8)
		for i := 0; i < 8; i++ {
			go func() {
				defer all.Done()
				for wait := range waits {
					time.Sleep(wait)
				}
			}()
		}
		for i := 0; i < 8; i++ {
			waits <- 20 * time.Millisecond
		}
		close(waits)
		all.Wait()
	}
}
