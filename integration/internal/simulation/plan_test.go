package simulation

import (
	"reflect"
	"testing"
	"time"
)

// TestPlanRefusesInvalidVariables: a soak with other settings than intended
// would be worse than none.
func TestPlanRefusesInvalidVariables(t *testing.T) {
	bad := []map[string]string{
		{"BATON_SEED": "x"}, {"BATON_SEEDS": "-1"}, {"BATON_SEEDS": "0"}, {"BATON_SIM_TIME": "10"},
		{"BATON_SIM_TIME": "-1m"},
		{"BATON_SEED": "1", "BATON_SEEDS": "2"}, {"BATON_SEEDS": "2", "BATON_SIM_TIME": "1m"},
		{"BATON_SIM_RECIPE": "lock"}, {"BATON_SIM_UNTIL": "9"}, {"BATON_SIM_PART": "3/2"}, {"BATON_SIM_PART": "0/2"},
		{"BATON_SEED": "1", "BATON_SIM_BASE": "2"},
	}
	for _, env := range bad {
		if p, err := planned(func(name string) string { return env[name] }); err == nil {
			t.Errorf("%v is %+v", env, p)
		}
	}
	good := map[string]string{"BATON_SIM_TIME": "2m", "BATON_SIM_BASE": "7", "BATON_SIM_PART": "2/2", "BATON_SIM_WITHOUT": "cut,c1", "BATON_SIM_UNTIL": "1s",
		"BATON_SIM_RECIPE": "mutex"}
	p, err := planned(func(name string) string { return good[name] })
	if want := (plan{base: 7, seeds: 200, part: 1, parts: 2, lasts: 2 * time.Minute, settings: settings{recipe: "mutex", without: []string{"cut", "c1"}, until: time.Second}}); err != nil ||
		!reflect.DeepEqual(p, want) {
		t.Errorf("%v is %+v, %v", good, p, err)
	}
}
