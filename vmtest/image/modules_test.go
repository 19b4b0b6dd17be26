package image

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestModulesAreLoadedAfterWhatTheyNeed(t *testing.T) {
	const dep = `kernel/virtio/virtio.ko:
kernel/virtio/virtio_ring.ko: kernel/virtio/virtio.ko
kernel/virtio/virtio_pci.ko: kernel/virtio/virtio_ring.ko kernel/virtio/virtio.ko
kernel/block/virtio_blk.ko.xz: kernel/virtio/virtio_ring.ko kernel/virtio/virtio.ko
`
	const builtin = "kernel/char/virtio_console.ko\n"
	order, err := loadOrder(dep, builtin, []string{"virtio_blk", "virtio_console", "virtio_pci"})
	require.NoError(t, err)
	assert.Equal(t, []string{
		"kernel/virtio/virtio.ko", "kernel/virtio/virtio_ring.ko", "kernel/block/virtio_blk.ko.xz", "kernel/virtio/virtio_pci.ko",
	}, order)
	assert.Equal(t, "virtio_blk", moduleName(order[2]))

	_, err = loadOrder(dep, builtin, []string{"console"})
	assert.ErrorContains(t, err, "no module console")
}
