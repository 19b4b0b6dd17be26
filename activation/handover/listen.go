package handover

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-proxy/holdfast/activation/sock"
)

// Listen makes the handover socket of an original, for its user alone (0600). The
// last element of its directory is made where it is missing, with mode 0700. A file
// on which nobody answers is replaced. sock.Hint may know what to do about an error.
func Listen(path string) (*sock.Listener, error) {
	a := sock.UnixPacket(path)
	if err := makeDirectory(path); err != nil {
		return nil, fmt.Errorf("handover: %w", &sock.ListenError{Addr: a, Err: err})
	}
	l, err := sock.Listen(a, sock.Options{Mode: 0o600})
	if err != nil {
		return nil, fmt.Errorf("handover: %w", err)
	}
	return l, nil
}

func makeDirectory(path string) error {
	if strings.HasPrefix(path, "@") { // in the abstract name space
		return nil
	}
	//nolint:gosec // the path is the administrator's
	if err := os.Mkdir(filepath.Dir(path), 0o700); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
