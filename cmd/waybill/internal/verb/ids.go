package verb

import "fmt"

// IDs returns the id of each thing in an answer, or its name if it has none.
func (v View) IDs(answer []byte) []string {
	tree, err := decode(answer)
	if err != nil {
		return nil
	}
	rows, list := v.list(tree)
	if thing, ok := tree.(members); !list && ok {
		rows = []members{thing}
	}
	var ids []string
	for _, row := range rows {
		for _, name := range []string{"id", "deliveryId", "name", "hostname"} {
			if value, ok := row[name]; ok && value != nil && value != "" {
				ids = append(ids, fmt.Sprint(value))
				break
			}
		}
	}
	return ids
}
