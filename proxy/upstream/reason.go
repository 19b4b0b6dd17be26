package upstream

import (
	"errors"
	"net"
	"syscall"
)

// reason is the cause of a failed dial, probe or look-up without the address,
// which the reader of the message knows already.
func reason(err error) string {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno.Error()
	}
	var failure net.Error
	if errors.As(err, &failure) && failure.Timeout() {
		return "timed out"
	}
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return dns.Err
	}
	return err.Error()
}
