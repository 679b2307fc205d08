package server_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"modelgate/internal/server"
)

func TestTheLogLevelFollowsTheSettings(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "modelgate.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	level := new(slog.LevelVar)
	write("log: {level: debug}\n")
	s, err := server.New(t.Context(), server.Options{Data: t.TempDir(), Listen: "127.0.0.1:0", Config: file, LogLevel: level})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, tt := range []struct {
		text string // written before a reload
		want slog.Level
	}{
		{"log: {level: debug}\n", slog.LevelDebug},
		{"log: {level: error}\n", slog.LevelError},
		{"", slog.LevelInfo},
	} {
		write(tt.text)
		if err := s.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := level.Level(); got != tt.want {
			t.Errorf("after %q the level is %v, want %v", tt.text, got, tt.want)
		}
	}
}
