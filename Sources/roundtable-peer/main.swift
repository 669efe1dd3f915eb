// The scriptable child process of the tests: reads one command a line, does it, replies with one line.
// See `PeerCommand` of RoundtableTestKit.
PeerSession().run()
