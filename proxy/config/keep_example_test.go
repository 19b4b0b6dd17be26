package config_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/holdfast-proxy/holdfast/proxy/config"
)

// A configuration is read, kept as text, and parsed when it is needed.
func ExampleSource_Read() {
	source := config.Source{Overrides: config.Overrides{Listen: []string{"tcp://:8080"}, Upstream: "tcp://127.0.0.1:9000"}}
	in, err := source.Read(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	kept, _ := json.Marshal(in)
	fmt.Println(string(kept))

	cfg, err := in.Parse()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(cfg.Listeners[0].Name, cfg.Listeners[0].Listen)
	// Output:
	// {"overrides":{"listen":["tcp://:8080"],"upstream":"tcp://127.0.0.1:9000"}}
	// default [tcp://:8080]
}
