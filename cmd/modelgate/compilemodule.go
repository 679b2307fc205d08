package main

import (
	"context"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"modelgate/internal/guardrail/wasmcode"
)

// compileModuleName is the command that [compilerCommand] starts. It is not for users.
const compileModuleName = "compile-module"

// compileModule compiles a WebAssembly module. It is run by the gateway itself.
func compileModule(p *program) *cobra.Command {
	f := p.flags(compileModuleName+" FOLDER",
		"Compiles a WebAssembly module from standard input. The gateway runs this command itself.",
		"")
	f.command.Hidden = true
	return f.run(func(context.Context) error {
		os.Exit(wasmcode.Main(p.in, f.Arg(0)))
		return nil
	})
}

// compilerCommand returns the command of a process that compiles modules.
func compilerCommand() []string {
	if runtime.GOOS == "linux" {
		// The running version, also after another was installed.
		return []string{"/proc/self/exe", compileModuleName}
	}
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0] // which fails when it is started, not here
	}
	return []string{self, compileModuleName}
}
