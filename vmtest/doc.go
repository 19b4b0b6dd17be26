// Package vmtest shows the promises of Holdfast to users of systemd where a real
// systemd is process 1: in virtual machines, with real clients under load.
//
// A scenario is a test that runs once in each release of Debian:
//
//	func TestRestartRefusesNobody(t *testing.T) {
//		vmtest.EachRelease(t, func(t *testing.T, g *vmtest.Guest) {
//			g.Install(config)
//			g.StartEcho("tcp://127.0.0.1:9000")
//			g.Run("systemctl", "start", "holdfast.socket")
//			load := g.StartLoad(vmtest.Load{}, "tcp://127.0.0.1:8080")
//			g.Run("systemctl", "restart", "holdfast.service")
//			assert.Zero(t, load.Stop().New.Refused)
//		})
//	}
//
// One machine a release serves all scenarios. Each finds its units, files and users as
// they were after boot: units named holdfast* and vmtest-* are stopped, and the files that
// a scenario wrote are removed, with the user that holdfast runs as and whatever is in
// /run/vmtest-*. The folders in which it wrote stay. Anything else that a scenario starts
// or changes, a unit of another name, a setting of the kernel, an
// address, would be there for the next one: start commands with Guest.StartUnit,
// and undo the rest with defer. A command that Guest.Run runs ends with all that it has
// started. A machine that a scenario brings down, or that cannot be cleaned, is replaced.
// A scenario that fails has the journal of its time and the state of those units in
// its log, or the console of a machine that is gone.
//
// The environment can say more:
//
//   - VMTEST_DRIVER is "qemu", the default, or "nspawn", which is faster and proves
//     less.
//   - VMTEST_RELEASES names releases of Debian, separated by commas, or is "all". By
//     default those that are out.
//   - VMTEST_CACHE is the folder for images, by default .cache beside this file.
//   - VMTEST_MIRROR is the archive to install from, by default that of this host's
//     apt.
//
// The package sees Holdfast only from outside, as its users do, and imports
// nothing of it. With -short it skips everything that needs a machine.
package vmtest
