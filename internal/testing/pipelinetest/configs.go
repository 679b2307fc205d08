package pipelinetest

import (
	"fmt"
	"strings"
)

// Leaf is a target.
const Leaf = `{"provider":"@a"}`

// Tree returns a node of this mode with n equal targets.
func Tree(mode string, n int, more string) string {
	return fmt.Sprintf(`{"strategy":{"mode":%q}%s,"targets":[%s]}`, mode, more, strings.TrimSuffix(strings.Repeat(Leaf+",", n), ","))
}

// Weighted returns a loadbalance node; a weight below zero is left out.
func Weighted(more string, weights ...float64) string {
	var targets []string
	for _, w := range weights {
		if w < 0 {
			targets = append(targets, Leaf)
			continue
		}
		targets = append(targets, fmt.Sprintf(`{"provider":"@a","weight":%v}`, w))
	}
	return `{"strategy":{"mode":"loadbalance"` + more + `},"targets":[` + strings.Join(targets, ",") + `]}`
}

// Path returns the JSON path of a node that is given in short, such as "0.1".
func Path(short string) string {
	if short == "" {
		return "config"
	}
	var b strings.Builder
	b.WriteString("config")
	for n := range strings.SplitSeq(short, ".") {
		b.WriteString(".targets[" + n + "]")
	}
	return b.String()
}

// Short returns the short form of the JSON path of a node, which [Path] takes.
func Short(path string) string {
	return strings.NewReplacer("config.targets[", "", "].targets[", ".", "]", "", "config", "").Replace(path)
}
