// What one writes in Go: golang.org/x/time/rate limiters in 64 maps, each behind a mutex.
//
// Usage: golang KEYS. Says "ready" once every key has a limiter; then, for each line of standard
// input, asks for every key once and prints the nanoseconds per decision.
package main

import (
	"bufio"
	"fmt"
	"hash/maphash"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const shards = 64

type shard struct {
	mutex    sync.Mutex
	limiters map[string]*rate.Limiter
	_        [48]byte
}

type limiterMap struct {
	seed   maphash.Seed
	shards [shards]shard
}

func (m *limiterMap) allow(key string) bool {
	s := &m.shards[maphash.String(m.seed, key)%shards]
	s.mutex.Lock()
	limiter, found := s.limiters[key]
	if !found {
		limiter = rate.NewLimiter(rate.Every(time.Hour), 100000)
		// A server's keys are read from the wire: the map's copy is not the caller's.
		s.limiters[strings.Clone(key)] = limiter
	}
	s.mutex.Unlock()
	return limiter.Allow()
}

func mix(z uint64) uint64 {
	z += 0x9E3779B97F4A7C15
	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
	z = (z ^ (z >> 27)) * 0x94D049BB133111EB
	return z ^ (z >> 31)
}

// makeKeys makes the keys of bench/memory/key_array.h, back to back.
func makeKeys(count int) []string {
	var text strings.Builder
	ends := make([]int, count)
	for i := range ends {
		number := mix(uint64(i))
		fmt.Fprintf(&text, "%016x%s", number, "........"[:number%9])
		ends[i] = text.Len()
	}
	all := text.String()
	keys := make([]string, count)
	begin := 0
	for i, end := range ends {
		keys[i] = all[begin:end]
		begin = end
	}
	return keys
}

func askAll(m *limiterMap, keys []string) float64 {
	begin := time.Now()
	for _, key := range keys {
		if !m.allow(key) {
			fmt.Fprintln(os.Stderr, "golang: a request was denied that must be admitted")
			os.Exit(1)
		}
	}
	return float64(time.Since(begin).Nanoseconds()) / float64(len(keys))
}

func main() {
	count := 0
	if len(os.Args) == 2 {
		count, _ = strconv.Atoi(os.Args[1])
	}
	if count < 1 || count > 100000000 {
		fmt.Fprintln(os.Stderr, "usage: golang KEYS (1 to 100000000)")
		os.Exit(2)
	}
	keys := makeKeys(count)
	m := &limiterMap{seed: maphash.MakeSeed()}
	for i := range m.shards {
		m.shards[i].limiters = make(map[string]*rate.Limiter)
	}
	askAll(m, keys)
	fmt.Println("ready")
	for input := bufio.NewScanner(os.Stdin); input.Scan(); {
		fmt.Printf("%.2f\n", askAll(m, keys))
	}
}
