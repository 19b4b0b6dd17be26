// Package systemd is the talk between this process and the service manager that
// runs it: what state the service is in and which descriptors are to be kept
// (sd_notify(3)), what the manager wants to hear (its variables), what it says
// about the unit (D-Bus), and where the log goes (the journal's native protocol).
//
//	notify, err := systemd.NotifierFromEnv() // once, early in main
//	log := slog.New(systemd.NewLogHandler(systemd.LogOptions{Identifier: "holdfast", Level: &level}))
//	…
//	notify.Ready()
//	…
//	notify.Reloading()
//	…
//	notify.Ready() // whatever came of it
//
// Everything works the same without systemd: a Notifier that is not asked for
// says nothing, and the log is text on stderr. What has no meaning without a
// manager is ErrNoManager then. Nothing blocks for long or ends the process when
// the other side hangs or is gone.
//
// Everything named FromEnv unsets what it has read, as it is not for children, and
// is to be called once.
//
// The package does not take sockets from systemd; package activation does.
package systemd
