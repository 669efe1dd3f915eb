import Roundtable

struct AddEntry: OutboxCommand {
    static let name = "add-entry"
    static let version = 1
}

var outbox: CommandOutbox { fatalError() }
var command: AddEntry { AddEntry() }

func report(_ text: String) {}
func askForSpace() {}
func showThatNothingIsApplied() {}
