import Foundation
import Notebook
import RoundtableTestKit

let isNaive = CommandLine.arguments.contains("--naive")

await Fleet.runRole([
    "writer": { worker in
        let notebook = try Notebook(at: worker.folder.appendingPathComponent("notes.sqlite"))
        let append = worker.arguments["naive"] == "true" ? notebook.appendNaively : notebook.append
        try worker.run(ListAppend(lists: 1, steps: 1, transactionsPerGeneration: 200), transactions: 1_000) { steps in
            if case .list(let list, _) = steps[0] { return [.list(list, elements: try notebook.numbers(in: list))] }
            if case .append(let list, let element) = steps[0] { try append(element, list) }
            return steps
        }
    }
])
let report = try Fleet.check("writer", processes: 4, arguments: ["naive": "\(isNaive)"])

print(report)
exit(report.isClean ? 0 : 1)
