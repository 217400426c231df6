package host

import (
	"fmt"
	"testing"
)

// Every partition has one owner, and nobody has more than one more than another; a member that comes or goes moves little
// more than what is its own.
func TestShareIsBalancedAndSticky(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int{1, 8, 64, 256} {
		for members := 1; members <= 12; members++ {
			names := make([]string, members)
			for i := range names {
				names[i] = fmt.Sprintf("host-%d.example", i)
			}
			before := owners(t, names, partitions, assignEvenly)
			after := owners(t, append(names, "another"), partitions, assignEvenly)
			moved, won := 0, 0
			for p := range partitions {
				if before[p] != after[p] {
					moved++
				}
				if after[p] == "another" {
					won++
				}
			}
			// Those that the newcomer has must move. Beyond them only what the smaller share of the others presses out.
			if most := won + partitions/4 + 1; moved > most {
				t.Errorf("%d partitions, %d members and one more: %d partitions move, %d of them to it; want at most %d", partitions, members, moved, won, most)
			}
		}
	}
}

// What a way gives is what every version that knows it gives: members that disagree leave partitions to nobody.
func TestWaysNeverChange(t *testing.T) {
	t.Parallel()
	members := []string{"a", "b", "c", "d", "e", "f", "g"}
	for way, want := range []string{"[d b e c a f e b]", "[d b e c a f e g]"} {
		if got := fmt.Sprint(owners(t, members, 8, way)); got != want {
			t.Errorf("way %d assigns %s, and assigned %s when it was released; make another way of what you want", way, got, want)
		}
	}
}

// owners asks every member for its share.
func owners(t *testing.T, members []string, partitions, way int) []string {
	t.Helper()
	all := make([]string, partitions)
	most := (partitions + len(members) - 1) / len(members)
	least := partitions / len(members)
	if way == assignGreedily {
		least = 0
	}
	for _, m := range members {
		mine := share(members, partitions, m, way)
		if len(mine) > most || len(mine) < least {
			t.Errorf("%s has %d of %d partitions among %d members, want %d to %d", m, len(mine), partitions, len(members), least, most)
		}
		for p := range mine {
			if all[p] != "" {
				t.Errorf("partition %d is %s's and %s's", p, all[p], m)
			}
			all[p] = m
		}
	}
	for p, m := range all {
		if m == "" {
			t.Errorf("partition %d of %d is nobody's among %d members", p, partitions, len(members))
		}
	}
	return all
}
