package sock

import "fmt"

// StoreNameAt is the StoreName of a Unix socket that another program has bound, and
// whose file is at a path. Who gives it to [AdoptStored] owns the file.
func (i Info) StoreNameAt(path string) (string, error) {
	file, err := newSocketFile(path)
	if err != nil {
		return "", fmt.Errorf("file of socket %s: %w", path, err)
	}
	return storeName{cookie: i.Cookie, file: file}.String(), nil
}

// Renamed tells whether the file that a Unix socket owns is at another path now. Then
// that is its address: some programs, HAProxy for one, rename the file after bind(2),
// and getsockname(2) goes on telling the first path.
func (l *Listener) Renamed(path string) bool {
	if l.file == nil {
		return false
	}
	now := &socketFile{path: path, dev: l.file.dev, ino: l.file.ino}
	if there, err := now.there(); err != nil || !there {
		return false
	}
	l.file, l.Info.Addr.Path = now, path
	return true
}
