package zookeeper

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/baton-go/baton/coordinator/driver"
)

func TestJoinRefusesReplyAboutAnotherNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const asked = "/baton/~/mutex/orders/x_" + testID + "_1000a2b3c4d5e6f_"
		n, err := createdNode(asked, asked+"0000000007")
		if err != nil || n.ID != testID || n.Mode != "x" || n.Session != "1000a2b3c4d5e6f" || n.seq != 7 || n.Key != "x_"+testID+"_1000a2b3c4d5e6f_0000000007" {
			t.Errorf("made %+v, %v", n, err)
		}
		for _, other := range []string{
			"", asked, asked + "7", asked + "lock-0000000007", asked + "1/0000000007",
			asked + "0000000000000007_1_0000000007",
			asked + "/x_" + testID + "_1000a2b3c4d5e6f_0000000007",
			"/baton/~/mutex/invoices/x_" + testID + "_1000a2b3c4d5e6f_0000000007",
			"/baton/~/mutex/orders/r_" + testID + "_1000a2b3c4d5e6f_0000000007",
			"/baton/~/mutex/orders/x_" + testID + "_1000a2b3c4d5e70_0000000007",
			"/baton/~/mutex/orders/x_00" + testID[2:] + "_1000a2b3c4d5e6f_0000000007",
		} {
			if n, err := createdNode(asked, other); !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), strconv.Quote(other)) {
				t.Errorf("%q: %+v, %v; want ErrUnavailable that names it", other, n, err)
			}
		}
	})
}
