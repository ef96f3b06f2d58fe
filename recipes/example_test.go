package recipes_test

import (
	"fmt"

	"github.com/baton-go/baton/coordinator/driver"
	"github.com/baton-go/baton/recipes"
)

// A rule decides, from the places ahead in the queue, whether a contender
// holds, and else which places it watches.
func ExampleRule() {
	reader := recipes.Shared("r")
	ahead := []driver.Place{{ID: "a", Mode: "r"}, {ID: "b", Mode: "w"}, {ID: "c", Mode: "r"}}

	v := reader(ahead)
	fmt.Println("admitted:", v.Admitted, "watches:", v.Watch[0].ID)

	v = recipes.Exclusive(ahead)
	fmt.Println("admitted:", v.Admitted, "watches:", v.Watch[0].ID)

	v = reader(ahead[:1])
	fmt.Println("admitted:", v.Admitted)
	// Output:
	// admitted: false watches: b
	// admitted: false watches: c
	// admitted: true
}
