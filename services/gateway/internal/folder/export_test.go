package folder

// The bounds of archives, for tests.
const (
	MaxTotal     = maxUnpacked
	MaxFiles     = maxPackedFiles
	MaxDepth     = maxPackedDepth
	MaxRouteFile = maxPackedRouteFile
	MaxFile      = maxPackedFile
)
