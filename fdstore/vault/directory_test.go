package vault_test

import (
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-proxy/holdfast/fdstore"
	"github.com/holdfast-proxy/holdfast/fdstore/vault"
)

// located are the segments of an owner that does not answer, as one finds them.
func located(t *testing.T, table int) []fdstore.Entry {
	t.Helper()
	files, owner, err := vault.Locate(table)
	require.NoError(t, err)
	assert.Equal(t, os.Getpid(), owner)
	var entries []fdstore.Entry
	for _, f := range files {
		entries = append(entries, fdstore.Entry(f))
	}
	return entries
}

// theTable looks for it as one looks into another process.
func theTable(t *testing.T) int {
	t.Helper()
	for fd, link := range descriptors() {
		if vault.IsTable(link) {
			n, err := strconv.Atoi(fd)
			require.NoError(t, err)
			return n
		}
	}
	require.Fail(t, "no table among the descriptors")
	return -1
}

func TestTheFilesOfAVaultAreFoundByItsTable(t *testing.T) {
	v := newVault(t, options())
	fill(t, v.Writer(0), 700, eventfd(t))
	require.NoError(t, v.Grow(t.Context())) // as far as it will
	files, release := v.Files()
	defer release()
	assert.Equal(t, files[1:], located(t, theTable(t)))
	for _, f := range files {
		assert.True(t, vault.IsName(f.Name), f.Name)
	}
}

func TestARestoredVaultHasANewDirectory(t *testing.T) {
	held := died(t, options(), func(v *vault.Vault) { fill(t, v.Writer(0), 700, eventfd(t)) })
	for range 3 { // shift the numbers
		eventfd(t)
	}
	v, _ := restore(t, options(), held)
	require.NoError(t, v.Grow(t.Context()))
	files, release := v.Files()
	defer release()
	assert.Equal(t, files[1:], located(t, theTable(t)))
}

func TestAFileThatIsNoTableIsNotLocated(t *testing.T) {
	fd, err := fdstore.Memfd("holdfast-vault", make([]byte, 8192))
	require.NoError(t, err)
	defer fd.Close()
	_, _, err = vault.Locate(fd.Raw())
	assert.ErrorContains(t, err, "not a vault's table")
	_, _, err = vault.Locate(eventfd(t))
	assert.ErrorContains(t, err, "not a sealed memfd")
}

func TestNamesOfOthersAreNotTheVaults(t *testing.T) {
	for name, want := range map[string]bool{
		"vault/table": true, "vault/1/in": true, "vault/12/out": true,
		"": false, "vault": false, "vault/": false, "vault/1": false, "vault/0/in": false, "vault/-1/in": false,
		"vault/4294967295/in": false, "vault/1/in/out": false, "state/1": false,
	} {
		assert.Equal(t, want, vault.IsName(name), name)
	}
	assert.True(t, vault.IsTable("/memfd:holdfast-vault (deleted)"))
	assert.False(t, vault.IsTable("/memfd:holdfast-vault2 (deleted)"))
}
