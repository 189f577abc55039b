package cli

// SettingsOf lists the flags ("--name") of every setting of a command, including hidden ones.
func SettingsOf(command string, sys System) ([]string, error) {
	var root commands
	parser, _, err := newParser(&root, nil, sys)
	if err != nil {
		return nil, err
	}
	var flags []string
	for _, node := range append(parser.Model.Children, parser.Model.Node) {
		if node != parser.Model.Node && node.Name != command {
			continue
		}
		for _, f := range node.Flags {
			if f.Tag.Has("var") {
				flags = append(flags, "--"+f.Name)
			}
		}
	}
	return flags, nil
}
