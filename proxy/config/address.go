package config

import (
	"errors"
	"net"
	"net/netip"
	"path"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxUnixPath is what sockaddr_un.sun_path (unix(7)) has room for: 108 bytes,
// one of them a NUL, before the name of an abstract socket or after a path.
const maxUnixPath = 107

const (
	addressForm = "write tcp://HOST:PORT or unix:///PATH"
	metricsForm = "write tcp://HOST:PORT"
)

// Two forms of a host that is no literal address: what DNS may hold, and what
// only a mistyped IPv4 address looks like.
var (
	dnsName  = regexp.MustCompile(`^([A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.)*[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.?$`)
	likeIPv4 = regexp.MustCompile(`(^|\.)[0-9]+\.?$`)
)

// ParseAddress reads an address as a config file or a flag has it:
// tcp://HOST:PORT, udp://HOST:PORT, unix:///PATH, unix://@NAME (abstract), or
// HOST:PORT, which is tcp. HOST is an IPv4 address, an IPv6 address in brackets,
// a DNS name, or nothing. A literal host is brought into its shortest form, an
// IPv4 address mapped into IPv6 becomes IPv4, a DNS name lower case. Whether the
// place that has the address can use it is not asked here.
func ParseAddress(text string) (Address, error) {
	if !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return Address{}, refuse("", "%s holds control characters or is not UTF-8", short(text))
	}
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		if strings.HasPrefix(text, "/") || strings.HasPrefix(text, "@") {
			return Address{}, refuse("write "+short("unix://"+text), "%s has no scheme", short(text))
		}
		scheme, rest = "tcp", text
	}
	switch scheme {
	case "tcp":
		return parseHostPort(scheme, rest, addressForm)
	case "udp":
		return parseHostPort(scheme, rest, "write udp://HOST:PORT")
	case "unix":
		if err := checkUnixPath(rest); err != nil {
			return Address{}, err
		}
		return Address{Network: "unix", Path: rest}, nil
	default:
		return Address{}, refuse(addressForm, "unknown scheme %s", short(scheme))
	}
}

// parseHostPort reads the address of a network that has ports; form is the hint
// where it is not in its form.
func parseHostPort(network, text, form string) (Address, error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		reason := err.Error()
		var split *net.AddrError
		if errors.As(err, &split) {
			reason = split.Err
		}
		return Address{}, refuse(form, "%s: %s", short(text), reason)
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if errors.Is(err, strconv.ErrRange) {
		return Address{}, refuse("", "port %s is above 65535", short(port))
	}
	if err != nil {
		return Address{}, refuse(form, "port %s is not a number", short(port))
	}
	if host == "*" {
		return Address{}, refuse("leave the host out for every address: "+network+"://:PORT", "%s is not a host", short(host))
	}
	host, err = normalHost(host)
	if err != nil {
		return Address{}, err
	}
	return Address{Network: network, Host: host, Port: uint16(number)}, nil
}

// normalHost is the one spelling of a host.
func normalHost(host string) (string, error) {
	if host == "" {
		return "", nil
	}
	if literal, err := netip.ParseAddr(host); err == nil {
		return literal.Unmap().String(), nil
	}
	switch {
	case len(host) > 253 || !dnsName.MatchString(host):
		return "", refuse("", "%s is neither an IP address nor a DNS name", short(host))
	case likeIPv4.MatchString(host):
		return "", refuse("", "%s is not a valid IPv4 address", short(host))
	}
	return strings.ToLower(host), nil
}

// checkUnixPath refuses what the kernel could not bind or would read in another
// way than it is written.
func checkUnixPath(p string) error {
	name, abstract := strings.CutPrefix(p, "@")
	switch {
	case p == "" || abstract && name == "":
		return refuse("write unix:///PATH or unix://@NAME", "the path of the unix socket is empty")
	case len(name) > maxUnixPath:
		return refuse("", "the path of the unix socket has %d bytes, the kernel takes %d", len(name), maxUnixPath)
	case strings.ContainsFunc(p, unicode.IsControl):
		return refuse("", "the path of the unix socket holds control characters")
	case abstract:
		return nil
	case !path.IsAbs(p):
		return refuse(`it must begin with "/"`, "the path %s of the unix socket is relative", short(p))
	case p == "/" || path.Clean(p) != p:
		return refuse("", "the path %s of the unix socket is not in its shortest form or names a directory", short(p))
	}
	return nil
}

// parseListen reads an address to listen on.
func parseListen(text string) (Address, error) {
	a, err := ParseAddress(text)
	if err != nil || a.Host == "" {
		return a, err
	}
	if _, err := netip.ParseAddr(a.Host); err != nil {
		return Address{}, refuse("write 127.0.0.1 or [::1] for this host alone, "+a.Network+"://:PORT for every address",
			"a name such as %s may stand for several addresses, one to listen on is needed", short(a.Host))
	}
	return a, nil
}

// parseServer reads an address to connect to.
func parseServer(text string) (Address, error) {
	a, err := ParseAddress(text)
	if err != nil || a.Network == "unix" {
		return a, err
	}
	if a.Network == "udp" {
		return Address{}, refuse("", "servers are reached over tcp or a unix socket, udp is not supported yet")
	}
	if literal, err := netip.ParseAddr(a.Host); a.Host == "" || err == nil && literal.IsUnspecified() {
		return Address{}, refuse("write 127.0.0.1 or [::1] for this host", "%s names no host to connect to", short(text))
	}
	if a.Port == 0 {
		return Address{}, refuse("", "nothing can be reached at port 0")
	}
	return a, nil
}

// parseMetrics reads the address of the metrics; "" is off, the zero value. A
// Unix socket is refused: Prometheus cannot ask there.
func parseMetrics(text string) (Address, error) {
	if text == "" {
		return Address{}, nil
	}
	a, err := parseListen(text)
	var bad *valueError
	switch {
	case err == nil && a.Network != "tcp":
		return Address{}, refuse(metricsForm, "metrics are served over TCP only")
	case errors.As(err, &bad) && bad.hint == addressForm:
		bad.hint = metricsForm
	}
	return a, err
}

// parseSocketPath reads the path of one of the process's own Unix sockets. They
// are guarded by file modes, which abstract sockets do not have.
func parseSocketPath(text string) (string, error) {
	if strings.HasPrefix(text, "@") {
		return "", refuse("write an absolute path", "an abstract socket has no owner and no mode")
	}
	if rest, found := strings.CutPrefix(text, "unix://"); found {
		return "", refuse("write "+short(rest), "a path is expected here, not an address")
	}
	return text, checkUnixPath(text)
}
