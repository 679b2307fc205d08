package main

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"regexp"
	"strings"
)

// wheelTags are the platforms of wheels. The binaries for Linux are static, so that they run
// with every C library.
//
// https://packaging.python.org/en/latest/specifications/platform-compatibility-tags/
var wheelTags = map[platform]string{
	{"linux", "amd64"}:   "manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64",
	{"linux", "arm64"}:   "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64",
	{"darwin", "amd64"}:  "macosx_11_0_x86_64",
	{"darwin", "arm64"}:  "macosx_11_0_arm64",
	{"windows", "amd64"}: "win_amd64",
	{"windows", "arm64"}: "win_arm64",
}

// buildWheels builds a package for each platform from which pip and uv install the binary.
//
// https://packaging.python.org/en/latest/specifications/binary-distribution-format/
func (r *release) buildWheels(context.Context) error {
	version := pythonVersion(r.version)
	for _, p := range r.platforms {
		binary, err := os.ReadFile(r.binary(p))
		if err != nil {
			return err
		}
		terms, err := os.ReadFile("LICENSE")
		if err != nil {
			return err
		}
		name, info := "modelgate", fmt.Sprintf("modelgate-%s.dist-info/", version)
		if p.os == "windows" {
			name += ".exe"
		}
		var tags strings.Builder
		for tag := range strings.SplitSeq(wheelTags[p], ".") {
			fmt.Fprintf(&tags, "Tag: py3-none-%s\n", tag)
		}
		entries := []entry{
			{fmt.Sprintf("modelgate-%s.data/scripts/%s", version, name), 0o755, binary},
			{info + "licenses/LICENSE", 0o644, terms},
			{info + "METADATA", 0o644, fmt.Appendf(nil, "Metadata-Version: 2.4\nName: modelgate\nVersion: %s\nSummary: %s\n"+
				"License-Expression: Apache-2.0\nLicense-File: LICENSE\nRequires-Python: >=3.8\n", version, summary)},
			{info + "WHEEL", 0o644, []byte("Wheel-Version: 1.0\nGenerator: modelgate\nRoot-Is-Purelib: false\n" + tags.String())},
		}
		content, err := zipped(append(entries, record(info+"RECORD", entries)), r.time)
		if err := r.write(fmt.Sprintf("modelgate-%s-py3-none-%s.whl", version, wheelTags[p]), content, err); err != nil {
			return err
		}
	}
	return nil
}

// summary describes the program in all packages.
const summary = "A gateway for model providers: one binary with routing, limits, guardrails, caches and exact books"

// record returns the file with the checksums of the others.
func record(name string, entries []entry) entry {
	var text strings.Builder
	for _, e := range entries {
		sum := sha256.Sum256(e.content)
		fmt.Fprintf(&text, "%s,sha256=%s,%d\n", e.name, base64.RawURLEncoding.EncodeToString(sum[:]), len(e.content))
	}
	return entry{name, 0o644, []byte(text.String() + name + ",,\n")}
}

var (
	described  = regexp.MustCompile(`^(\d+)-g([0-9a-f]+)(-dirty)?$`) // after the last tag, by git
	prerelease = regexp.MustCompile(`^(alpha|beta|rc)\.?(\d*)$`)
)

// pythonVersion returns a semantic version as Python orders versions.
//
// https://packaging.python.org/en/latest/specifications/version-specifiers/
func pythonVersion(semantic string) string {
	rest, local, _ := strings.Cut(semantic, "+")
	number, before, _ := strings.Cut(rest, "-")
	version := number
	if m := described.FindStringSubmatch(before); m != nil {
		version += ".post" + m[1]
		local = strings.TrimPrefix(local+".g"+m[2]+strings.ReplaceAll(m[3], "-", "."), ".")
	} else if m := prerelease.FindStringSubmatch(before); m != nil {
		version += map[string]string{"alpha": "a", "beta": "b", "rc": "rc"}[m[1]] + max(m[2], "0")
	} else if before != "" {
		version += ".dev0"
		if before != "dev" {
			local = strings.Trim(before+"."+local, ".")
		}
	}
	if local = strings.Map(localRune, local); local != "" {
		version += "+" + local
	}
	return version
}

// localRune replaces what local versions of Python may not have.
func localRune(c rune) rune {
	if c == '-' || c == '_' {
		return '.'
	}
	return c
}
