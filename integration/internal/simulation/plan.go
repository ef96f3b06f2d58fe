package simulation

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// baseSeed is the first seed of a run with fixed seeds.
const baseSeed = 1

// plan determines which seeds are run.
type plan struct {
	base     uint64
	seeds    uint64        // so many, or
	part     uint64        // of the seeds this process runs one in parts,
	parts    uint64        // from this one
	lasts    time.Duration // as long as this
	settings               // of each world but its seed
	replay   bool
}

// planned reads the plan from the environment.
func planned(env func(string) string) (plan, error) {
	p := plan{base: baseSeed, seeds: 200, parts: 1, settings: settings{recipe: env("BATON_SIM_RECIPE")}}
	if all := slices.Concat(recipeKinds, coreKinds); p.recipe != "" &&
		!slices.Contains(all, p.recipe) {
		return p, fmt.Errorf("BATON_SIM_RECIPE=%q: want one of %v", p.recipe, all)
	}
	if s := env("BATON_SIM_WITHOUT"); s != "" {
		p.without = strings.Split(s, ",")
	}
	if s := env("BATON_SIM_UNTIL"); s != "" {
		var err error
		if p.until, err = time.ParseDuration(s); err != nil || p.until <= 0 {
			return p, fmt.Errorf("BATON_SIM_UNTIL=%q: want a positive duration, such as 10s", s)
		}
	}
	if s := env("BATON_SIM_PART"); s != "" {
		if n, err := fmt.Sscanf(s, "%d/%d", &p.part, &p.parts); n != 2 || err != nil || p.part < 1 ||
			p.part > p.parts {
			return p, fmt.Errorf("BATON_SIM_PART=%q: want 1/2 or 2/2 for a half of the seeds", s)
		}
		p.part--
	}
	return p, p.count(env)
}

// count reads how many seeds are run, and from which.
func (p *plan) count(env func(string) string) error {
	seed, replays, err := number(env, "BATON_SEED")
	seeds, counts, err2 := number(env, "BATON_SEEDS")
	base, based, err3 := number(env, "BATON_SIM_BASE")
	lasts := env("BATON_SIM_TIME")
	switch err := cmp.Or(err, err2, err3); {
	case err != nil:
		return err
	case replays && (counts || based || lasts != "") || counts && lasts != "":
		return fmt.Errorf("BATON_SEED replays a seed, BATON_SEEDS is the number of seeds, " +
			"BATON_SIM_TIME the duration: set only one of them")
	case replays:
		p.base, p.seeds, p.replay = seed, 1, true
	case counts && seeds == 0:
		return fmt.Errorf("BATON_SEEDS=0: want at least one")
	case counts:
		p.seeds = seeds
	case lasts != "":
		d, err := time.ParseDuration(lasts)
		if err != nil || d <= 0 {
			return fmt.Errorf("BATON_SIM_TIME=%q: want a positive duration, such as 10m", lasts)
		}
		p.lasts, p.base = d, rand.Uint64()>>16
	}
	if based {
		p.base = base
	}
	return nil
}

// number reads a number, if it is set.
func number(env func(string) string, name string) (n uint64, set bool, err error) {
	s := env(name)
	if s == "" {
		return 0, false, nil
	}
	if n, err = strconv.ParseUint(s, 10, 64); err != nil {
		return 0, false, fmt.Errorf("%s=%q: want a whole number, 0 or more", name, s)
	}
	return n, true, nil
}
