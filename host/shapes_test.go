package host

import (
	"testing"

	"github.com/troupehq/troupe/test/shape"
)

// What the host of a tree packs, besides what package agent knows of.
func TestStructsOnlyGrowAtTheirEnd(t *testing.T) {
	t.Parallel()
	shape.Check(t, "testdata/shapes.golden", &treeHead{}, &[]member{}, &check{})
}
