package secretref

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"modelgate/internal/base/apierr"
	"modelgate/internal/base/secret"
)

// The host belongs to the operator, and references belong to tenants: they can only
// read what the operator lists.

var variableForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*\*?$`)

// isGatewayVariable reports whether a variable belongs to the gateway itself.
func isGatewayVariable(name string) bool {
	return strings.HasPrefix(name, "MODELGATE_") || name == "DATABASE_URL"
}

// CheckVariable returns an error for an invalid entry of Options.Environment, which
// must be a name or a prefix followed by a star.
func CheckVariable(entry string) error {
	if !variableForm.MatchString(entry) {
		return errors.New("must be the name of a variable, or a prefix followed by a star, such as APP_*")
	}
	if isGatewayVariable(strings.TrimSuffix(entry, "*")) {
		return errors.New("must not be one of the gateway's own variables")
	}
	return nil
}

// CheckFolder returns an error for an invalid entry of Options.Files.
func CheckFolder(entry string) error {
	if !filepath.IsAbs(entry) || filepath.Clean(entry) != entry || filepath.Dir(entry) == entry {
		return errors.New("must be the absolute path of a folder, such as /run/secrets")
	}
	return nil
}

func (r *Resolver) checkVariable(ref *Reference) error {
	for _, entry := range r.Environment {
		prefix, many := strings.CutSuffix(entry, "*")
		if (ref.Path == entry || many && strings.HasPrefix(ref.Path, prefix)) && variableForm.MatchString(ref.Path) &&
			!isGatewayVariable(ref.Path) {
			return nil
		}
	}
	return notAllowed("secret_path names an environment variable that the operator does not allow; list it in secrets.environment of modelgate.yaml")
}

func notAllowed(what string) error {
	return apierr.New(apierr.Invalid, "%s", what).WithParam("secret_path").WithCode("secret_not_allowed")
}

func (r *Resolver) variable(_ context.Context, ref *Reference) (secretPayload, error) {
	v, ok := r.LookupEnv(ref.Path)
	if !ok {
		return secretPayload{}, missing("the environment variable is not set")
	}
	return secretPayload{text: secret.New(v)}, nil
}

func missing(what string) error {
	return apierr.New(apierr.Unavailable, "%s", what).WithCode("secret_not_found")
}

func (r *Resolver) checkFile(ref *Reference) error {
	_, _, err := r.findFolder(ref.Path)
	return err
}

// findFolder returns the allowed folder of a path, and its name relative to the folder.
func (r *Resolver) findFolder(path string) (folder, name string, err error) {
	if filepath.IsAbs(path) && filepath.Clean(path) == path {
		for _, folder := range r.Files {
			if name, ok := strings.CutPrefix(path, folder+string(filepath.Separator)); ok {
				return folder, name, nil
			}
		}
	}
	return "", "",
		notAllowed("secret_path is not the absolute path of a file in a folder that the operator allows; list the folder in secrets.files of modelgate.yaml")
}

// file reads a file. Links out of the folder are not followed; links within it are,
// because Kubernetes mounts secrets that way.
func (r *Resolver) file(_ context.Context, ref *Reference) (secretPayload, error) {
	folder, name, err := r.findFolder(ref.Path)
	if err != nil {
		return secretPayload{}, err
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return secretPayload{}, readError(err)
	}
	defer root.Close()
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // opening a pipe would block
	if err != nil {
		return secretPayload{}, readError(err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return secretPayload{}, readError(err)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxValue+3))
	if err != nil {
		return secretPayload{}, readError(err)
	}
	// Editors and echo add a line end that is not part of the secret.
	return secretPayload{text: secret.New(strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r"))}, nil
}

// ReadListed reads a file that a tenant names outside of a reference, if references may
// name it. A nil resolver reads none.
func (r *Resolver) ReadListed(path string) ([]byte, error) {
	if r == nil {
		return nil, notAllowed("tenants may not read any files")
	}
	f, err := r.file(context.Background(), &Reference{Path: path})
	return []byte(f.text.Reveal()), err
}

// readError omits err from its result, because it contains paths of the host.
func readError(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return missing("the file does not exist")
	case errors.Is(err, fs.ErrPermission):
		return missing("the gateway may not read the file")
	}
	return missing("the file cannot be read: it is not a regular file within the folder")
}
