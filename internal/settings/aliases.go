package settings

import (
	"fmt"

	"github.com/goccy/go-yaml/ast"
)

// maxRepeated is how many values the aliases of a file may repeat in all. With aliases of
// aliases, a few lines have billions of values.
const maxRepeated = 1_000_000

// checkAliases returns an error for a file whose aliases repeat too much.
func checkAliases(file string, tree *ast.File) error {
	c := aliasCounter{sizes: make(map[string]int)}
	for _, doc := range tree.Docs {
		c.size(doc.Body)
	}
	if c.repeated > maxRepeated {
		return &FileError{File: file, Problem: fmt.Sprintf("its aliases repeat more than %d values; write them out, or use fewer", maxRepeated)}
	}
	return nil
}

// aliasCounter counts values that aliases repeat.
type aliasCounter struct {
	sizes    map[string]int // number of values by anchor
	repeated int
}

// size returns the number of values in a node, those of aliases included, up to a little more
// than maxRepeated.
func (c *aliasCounter) size(n ast.Node) int {
	total := 1
	switch n := n.(type) {
	case *ast.AnchorNode:
		total = c.size(n.Value)
		c.sizes[n.Name.GetToken().Value] = total
	case *ast.AliasNode:
		total = c.sizes[n.Value.GetToken().Value]
		c.repeated = min(c.repeated+total, maxRepeated+1)
	case *ast.TagNode:
		total = c.size(n.Value)
	case *ast.MappingNode:
		for _, v := range n.Values {
			total = min(total+c.size(v.Value), maxRepeated+1)
		}
	case *ast.MappingValueNode:
		total = c.size(n.Value)
	case *ast.SequenceNode:
		for _, v := range n.Values {
			total = min(total+c.size(v), maxRepeated+1)
		}
	}
	return total
}
