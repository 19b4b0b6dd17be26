package main

import (
	"errors"
	"fmt"
	"net"
	"strings"
)

// address is a place to dial or listen at.
type address struct {
	network, host string
}

// parseAddress reads "tcp://HOST:PORT", "unix:///PATH" or "unix://@NAME".
func parseAddress(s string) (address, error) {
	network, host, _ := strings.Cut(s, "://")
	if network != "tcp" && network != "unix" || host == "" {
		return address{}, fmt.Errorf("%q is neither tcp://HOST:PORT nor unix:///PATH", s)
	}
	return address{network, host}, nil
}

func parseAddresses(list []string) ([]address, error) {
	if len(list) == 0 {
		return nil, errors.New("no address")
	}
	addresses := make([]address, len(list))
	for i, s := range list {
		a, err := parseAddress(s)
		if err != nil {
			return nil, err
		}
		addresses[i] = a
	}
	return addresses, nil
}

func (a address) listen() (net.Listener, error) { return net.Listen(a.network, a.host) }

func (a address) String() string { return a.network + "://" + a.host }
