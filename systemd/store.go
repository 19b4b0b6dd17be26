package systemd

import (
	"os"
	"strconv"
)

// StoreFromEnv says how many descriptors the manager's store takes for this
// service, FileDescriptorStoreMax=. 0 means that the manager does not say: it has no
// store for it, or is older than systemd 254; AskUnit knows more then.
//
// It reads $FDSTORE and unsets it: a child has no store.
func StoreFromEnv() int {
	value := os.Getenv("FDSTORE")
	_ = os.Unsetenv("FDSTORE") // fails for malformed names only
	return parseStore(value)
}

// parseStore takes what is no number in the range of systemd's unsigned int for
// not said.
func parseStore(value string) int {
	n, err := strconv.ParseUint(value, 10, 32)
	if err != nil {
		return 0
	}
	return int(n)
}
