package terminal

import "fmt"

// Size writes a number of bytes for people.
func Size(n int64) string {
	value, units := float64(n), []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for ; value >= 1024 && i < len(units)-1; i++ {
		value /= 1024
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", value, units[i])
}
