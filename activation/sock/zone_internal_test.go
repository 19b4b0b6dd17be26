package sock

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestZoneIsANameWhereTheInterfaceHasOne(t *testing.T) {
	id, err := zoneID("lo")
	require.NoError(t, err)
	assert.Equal(t, "lo", zoneName(id))

	const noInterface = 1 << 30
	assert.Equal(t, "1073741824", zoneName(noInterface))
	id, err = zoneID("1073741824")
	require.NoError(t, err)
	assert.EqualValues(t, noInterface, id)

	assert.Empty(t, zoneName(0))
	_, err = zoneID("nosuch0")
	assert.ErrorIs(t, err, unix.ENODEV)
}
