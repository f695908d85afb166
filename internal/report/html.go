//go:build !js

package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"
)

//go:embed report.html.tmpl
var pageText string

// A page is what the template of report.html sees.
type page struct {
	*Report
	Chart  *chart
	Timing *timing
	Rows   []row
	Hashes []stepHash
	AnyBackup,
	AnyRetry bool
}

// A row is a peer with what is shown about it; shares are percents.
type row struct {
	*Peer
	SampleShare, OwnedShare float64
	Rest                    int64
	Kinds                   []kind
}

// A kind is a part of the memory at rest, as wide as its percent of the largest peer's.
type kind struct {
	Name, Class string
	Bytes       int64
	Width       float64
}

type stepHash struct {
	Step int
	Hash string
}

// HTML is report.html: one file without scripts that needs no network.
func (r *Report) HTML() ([]byte, error) {
	t, err := template.New("report").Funcs(template.FuncMap{
		"bytes": func(v any) string { return Bytes(int64(toFloat(v))) }, "count": Count, "grouped": grouped, "seconds": seconds, "short": shortID, "percent": percent,
		"loss":  func(v any) string { return lossText(toFloat(v)) },
		"rate":  func(v float64) string { return Count(int64(v + 0.5)) },
		"share": share, "millis": millis,
		"title":  func(s string) string { return strings.ToUpper(s[:1]) + s[1:] },
		"ms":     func(v float64) string { return millis(Number(v)) },
		"off":    func(c Compared) string { return signed(c.Off()) },
		"period": func(seconds float64) string { return millis(Number(1000 * seconds)) },
		"slope":  func(v Number) string { return percent(float64(v)) },
	}).Parse(pageText)
	if err != nil {
		return nil, fmt.Errorf("report page: %w", err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, r.page()); err != nil {
		return nil, fmt.Errorf("report page: %w", err)
	}
	return b.Bytes(), nil
}

func toFloat(v any) float64 {
	switch v := v.(type) {
	case Number:
		return float64(v)
	case float64:
		return v
	case int64:
		return float64(v)
	}
	return 0
}

// Language, LastLoss and Steps64 are for the template.
func (p *page) Language() bool    { return p.LossUnit == PerToken }
func (p *page) LastLoss() float64 { return p.lastLoss() }
func (p *page) Steps64() int64    { return int64(p.Steps) }

// maxShown is the most faults that the page lists.
const maxShown = 100

// ShownFaults are the faults on the page, FaultsHidden is how many others there are.
func (p *page) ShownFaults() []Fault { return p.Faults[:min(len(p.Faults), maxShown)] }
func (p *page) FaultsHidden() int    { return len(p.Faults) - len(p.ShownFaults()) }

func (r *Report) page() *page {
	p := &page{Report: r, Chart: r.chart(), Timing: r.timing()}
	largest := int64(0)
	for i := range r.Peers {
		largest = max(largest, r.Peers[i].rest())
	}
	for i := range r.Peers {
		q := &r.Peers[i]
		p.AnyBackup = p.AnyBackup || q.BackupBytes > 0
		p.AnyRetry = p.AnyRetry || q.Retries > 0
		row := row{
			Peer:        q,
			SampleShare: 100 * share(q.Samples, r.samples()),
			OwnedShare:  100 * share(q.ParametersOwned, r.ModelParameters),
			Rest:        q.rest(),
		}
		for _, k := range []kind{
			{Name: "parameters", Class: "k1", Bytes: q.ParameterBytes},
			{Name: "gradients", Class: "k2", Bytes: q.GradientBytes},
			{Name: "optimizer", Class: "k3", Bytes: q.OptimizerBytes},
			{Name: "backups", Class: "k4", Bytes: q.BackupBytes},
		} {
			k.Width = 100 * share(k.Bytes, largest)
			row.Kinds = append(row.Kinds, k)
		}
		p.Rows = append(p.Rows, row)
	}
	for step, hash := range r.StepHashes {
		n, err := strconv.Atoi(step)
		if err != nil {
			n = -1
		}
		p.Hashes = append(p.Hashes, stepHash{n, hash})
	}
	slices.SortFunc(p.Hashes, func(a, b stepHash) int { return a.Step - b.Step })
	return p
}
