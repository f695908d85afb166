package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"shoal"
	"shoal/internal/page"
	"shoal/peer"
)

// noPage is the value of --page with which nothing is served.
const noPage = "none"

// mostPageAddresses is how many addresses of the page are shown.
const mostPageAddresses = 4

// servePage serves the page with which browsers join the run that cfg takes part in, at the address that the flag names.
// The run is shown there as soon as this peer is in it. Nil means that there is no page.
func (n *nodeFlags) servePage(cfg *shoal.Config) (*page.Server, error) {
	if n.page == noPage {
		return nil, nil
	}
	wrong := func(err error) error {
		return wrongInput{fmt.Errorf("--page: %w: give an address of this machine with a free port, as in :4780, or none", err)}
	}
	h, err := page.NewHandler(page.Config{})
	if errors.Is(err, page.ErrNotBuilt) && n.page == "" {
		cfg.OnNotice(fmt.Sprintf("there is no page for browsers: %v", err))
		return nil, nil
	}
	if err != nil {
		return nil, wrong(err)
	}
	var s *page.Server
	if n.page == "" {
		s, err = page.ServeNear(pageHost(cfg.Listen), h)
	} else {
		s, err = page.Serve(n.page, h, nil)
	}
	if err != nil {
		return nil, wrong(err)
	}
	var live *shoal.Live // set and read by the goroutine of Run
	begun, linked := cfg.OnLive, cfg.OnOwnLink
	cfg.OnLive = func(l *shoal.Live) {
		live = l
		if begun != nil {
			begun(l)
		}
	}
	cfg.OnOwnLink = func(link string) {
		if l, err := peer.ParseLink(link); err == nil { // it is the host's own
			h.Run(func() any { return live.About() }, l.Secret)
		}
		if linked != nil {
			linked(link)
		}
	}
	return s, nil
}

// pageHost is where the page is served by default: where the peer listens, this machine alone or everywhere.
func pageHost(listen []string) string {
	alone := len(listen) > 0 && !slices.ContainsFunc(listen, func(addr string) bool {
		host, _, err := net.SplitHostPort(addr)
		ip, err2 := netip.ParseAddr(host)
		return err != nil || host != "localhost" && (err2 != nil || !ip.IsLoopback())
	})
	if alone {
		return "127.0.0.1"
	}
	return ""
}

// pageLinks are the addresses that one opens in a browser to join by a link. s may be nil.
func pageLinks(s *page.Server, link string) (ways []string) {
	if s == nil {
		return nil
	}
	list := s.Addresses()
	for _, address := range list[:min(len(list), mostPageAddresses)] {
		ways = append(ways, "or in a browser: "+address+"#"+link)
	}
	return ways
}
