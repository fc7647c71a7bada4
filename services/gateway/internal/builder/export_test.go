package builder

import "time"

// SetLimit sets how long a build may take.
func (b *Builder) SetLimit(limit time.Duration) { b.limit = limit }
