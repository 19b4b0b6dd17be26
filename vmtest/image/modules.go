package image

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-proxy/holdfast/vmtest/cpio"
)

// moduleArchive gives the named kernel modules of root, and what they depend on,
// as files whose names sort in the order to load them.
func moduleArchive(root string, names []string) ([]cpio.File, error) {
	dirs, err := filepath.Glob(filepath.Join(root, "usr/lib/modules/*"))
	if err != nil {
		return nil, err
	}
	if len(dirs) != 1 {
		return nil, fmt.Errorf("the image has %d kernels, it must have one", len(dirs))
	}
	dep, err1 := os.ReadFile(filepath.Join(dirs[0], "modules.dep"))
	builtin, err2 := os.ReadFile(filepath.Join(dirs[0], "modules.builtin"))
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	order, err := loadOrder(string(dep), string(builtin), names)
	if err != nil {
		return nil, err
	}
	files := make([]cpio.File, len(order))
	for i, module := range order {
		content, err := readModule(filepath.Join(dirs[0], module))
		if err != nil {
			return nil, err
		}
		files[i] = cpio.File{Name: fmt.Sprintf("modules/%02d-%s", i, moduleName(module)), Mode: 0o644, Content: content}
	}
	return files, nil
}

// loadOrder lists the paths of the named modules and of those they depend on,
// each after its own. dep and builtin are the content of modules.dep and
// modules.builtin, see depmod(8).
func loadOrder(dep, builtin string, names []string) ([]string, error) {
	paths := map[string]string{}
	needs := map[string][]string{}
	for line := range strings.Lines(dep) {
		module, list, _ := strings.Cut(line, ":")
		paths[moduleName(module)] = module
		needs[module] = strings.Fields(list)
	}
	var order []string
	var add func(module string)
	add = func(module string) {
		if slices.Contains(order, module) {
			return
		}
		for _, need := range needs[module] {
			add(need)
		}
		order = append(order, module)
	}
	for _, name := range names {
		switch module, ok := paths[name]; {
		case ok:
			add(module)
		case !strings.Contains(builtin, "/"+name+".ko\n"):
			return nil, fmt.Errorf("the kernel has no module %s", name)
		}
	}
	return order, nil
}

// moduleName is "virtio_blk" for "kernel/drivers/block/virtio_blk.ko.xz".
func moduleName(module string) string {
	name, _, _ := strings.Cut(path.Base(module), ".")
	return name
}

// readModule unpacks a module, because not every kernel can do that itself.
func readModule(file string) ([]byte, error) {
	if filepath.Ext(file) != ".xz" {
		return os.ReadFile(file)
	}
	content, err := exec.Command("xz", "-dc", file).Output()
	if err != nil {
		return nil, fmt.Errorf("unpack %s: %w", file, err)
	}
	return content, nil
}
