package main

import (
	"fmt"
	"syscall"
	"time"
)

// between is how long a process lives before it is killed.
const between = 800 * time.Millisecond

// killAgain kills the proxy so many times, and says how the download took it.
func killAgain(count int, p *proxy, d *download) error {
	began := time.Now()
	for range count {
		time.Sleep(between)
		former := p.pid
		d.resetPause()
		if err := syscall.Kill(former, syscall.SIGKILL); err != nil {
			return err
		}
		if err := p.awaitAnother(former); err != nil {
			return err
		}
		if err := d.awaitMore(); err != nil {
			return err
		}
		fmt.Printf("  %4.1f s  kill -9 %-7d process %-7d goes on, the stream stood still for %4d ms  %6s\n",
			time.Since(began).Seconds(), former, p.pid, d.pause().Milliseconds(), megabytes(d.bytes.Load()))
	}
	time.Sleep(between)
	return nil
}

func megabytes(bytes int64) string { return fmt.Sprintf("%d MB", bytes/1e6) }
