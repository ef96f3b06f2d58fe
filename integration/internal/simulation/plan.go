package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"
)

// baseSeed is the first seed of a run with fixed seeds.
const baseSeed = 1

// plan determines which seeds are run.
type plan struct {
	base   uint64
	seeds  uint64        // so many, or
	lasts  time.Duration // as long as this
	recipe string        // all names are of it; empty: of any
	replay bool
}

// planned reads the plan from the environment.
func planned(env func(string) string) (plan, error) {
	p := plan{base: baseSeed, seeds: 150, recipe: env("BATON_SIM_RECIPE")}
	if all := slices.Concat(recipeKinds, coreKinds); p.recipe != "" &&
		!slices.Contains(all, p.recipe) {
		return p, fmt.Errorf("BATON_SIM_RECIPE=%q: want one of %v", p.recipe, all)
	}
	numbers := map[string]uint64{}
	for _, name := range []string{"BATON_SEED", "BATON_SEEDS", "BATON_SIM_BASE"} {
		if s := env(name); s != "" {
			n, err := strconv.ParseUint(s, 10, 64)
			if err != nil {
				return p, fmt.Errorf("%s=%q: want a whole number, 0 or more", name, s)
			}
			numbers[name] = n
		}
	}
	seed, replays := numbers["BATON_SEED"]
	seeds, counts := numbers["BATON_SEEDS"]
	base, based := numbers["BATON_SIM_BASE"]
	lasts := env("BATON_SIM_TIME")
	switch {
	case replays && (counts || based || lasts != "") || counts && lasts != "":
		return p, fmt.Errorf("BATON_SEED replays a seed, BATON_SEEDS is the number of seeds, " +
			"BATON_SIM_TIME the duration: set only one of them")
	case replays:
		p.base, p.seeds, p.replay = seed, 1, true
	case counts && seeds == 0:
		return p, fmt.Errorf("BATON_SEEDS=0: want at least one")
	case counts:
		p.seeds = seeds
	case lasts != "":
		d, err := time.ParseDuration(lasts)
		if err != nil || d <= 0 {
			return p, fmt.Errorf("BATON_SIM_TIME=%q: want a positive duration, such as 10m", lasts)
		}
		p.lasts, p.base = d, rand.Uint64()>>16
	}
	if based {
		p.base = base
	}
	return p, nil
}
