// coredns is CoreDNS with only the plugins that the lab needs: the stock main pulls in the SDK of
// every cloud and takes several times as long to build.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/log"
	_ "github.com/coredns/coredns/plugin/reload"
)

func main() {
	// The order is that of the plugin chain.
	dnsserver.Directives = []string{"reload", "bind", "errors", "log", "kubernetes"}
	coremain.Run()
}
