package server

import (
	"crypto/hmac"
	"crypto/sha256"
	"path/filepath"
	"slices"

	"modelgate/internal/guardrail/checks"
	"modelgate/internal/guardrail/wasmcode"
	"modelgate/internal/store/publication"
)

// openModules opens the compiler of WebAssembly modules. With a master key, machine code
// that someone else wrote into the data folder is not used.
func (s *Server) openModules() error {
	o := wasmcode.Options{Command: s.ModuleCompiler, Folder: filepath.Join(s.Data, "modules")}
	if !s.MasterKey.Empty() {
		h := hmac.New(sha256.New, []byte(s.MasterKey.Reveal()))
		h.Write([]byte("machine code of modules"))
		o.Key = h.Sum(nil)
	}
	c, err := wasmcode.Open(o)
	if err != nil {
		return err
	}
	s.modules = checks.NewModules(c)
	return nil
}

// removeModules removes the machine code of modules that guardrails no longer use.
func (s *Server) removeModules(before, now *publication.State) {
	if before == nil {
		return
	}
	for _, m := range before.Modules {
		if !slices.ContainsFunc(now.Modules, func(other publication.Module) bool { return other.SHA256 == m.SHA256 }) {
			s.modules.Remove(sha256.Sum256(m.Code))
		}
	}
}
