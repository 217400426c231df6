package model

import "strings"

// words makes a set of a list.
func words(list string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(list) {
		set[w] = true
	}
	return set
}

// Abbreviations, in lower case and without their last dot. What is not listed, "etc"
// among it, ends a sentence when a capital follows.
var (
	// alwaysGoesOn are never the last word of a sentence.
	alwaysGoesOn = words(`mr mrs ms dr prof messrs mme mlle sra srta dott frl lt sgt capt cmdr e.g eg i.e ie
		vs cf viz approx resp incl excl esp z.b d.h u.a z.t o.ä bzw vgl evtl ggf inkl zzgl p.ex c.-à-d`)

	// goesOnToNumber go on when a number follows: "Fig. 3", "Jan. 5", "No. 7".
	goesOnToNumber = words(`no nos nr fig figs eq eqs sec secs ch chap p pp pg vol vols art arts par para tab
		ex app ver v ed s jan feb mar apr jun jul aug sep sept oct nov dec abs ziff núm num n°`)

	// mayGoOn end a sentence only if the next word is one that starts sentences: "Acme Inc. The".
	// So do single capitals and acronyms: "the U.S. The".
	mayGoOn = words(`jr sr inc ltd co corp llc plc gmbh bros dept univ assn al ca est ave blvd rd st mt ft
		rev hon gen col maj gov sen rep pres sig hr z ph.d`)

	// starters are words that start sentences, and seldom names.
	starters = words(`a an the this that these those it its he she they we i you there here his her their our
		my your in on at by for from with to of as if when while after before since because although though
		but and or so yet however moreover therefore thus then now what who where why how which one two three
		some many most all both each every no not is are was were do does did let please meanwhile finally
		first second next also later today another such during under over once even only
		der die das ein eine es er sie wir ich le la les il elle nous un une el los las`)
)
