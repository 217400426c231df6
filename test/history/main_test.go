package history

import (
	"testing"

	"github.com/troupehq/troupe/test/natstest"
)

func TestMain(m *testing.M) { natstest.Main(m) }
