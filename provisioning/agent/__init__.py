"""Puts the agent on nodes: what is sent, where it lies, what starts it. Entry points: `bundle.build` makes
what is sent, `install.act` installs and removes it over a transport, `status.status` reads the answer;
`onnode` is what runs there."""
