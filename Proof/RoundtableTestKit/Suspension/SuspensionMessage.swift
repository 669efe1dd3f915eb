/// A message between the police and a process. It is one line of UTF-8, with its words separated by a space.
enum SuspensionMessage: Equatable {
    // Messages from the police.
    case suspending(milliseconds: Int)
    case granted(id: Int)
    case refused(id: Int)
    case expiring(milliseconds: Int)
    case resumed

    // Messages from the process.
    case begin(id: Int, name: String)
    case end(id: Int)
    case closed

    var line: String {
        switch self {
        case .suspending(let milliseconds): "suspending \(milliseconds)"
        case .granted(let id): "granted \(id)"
        case .refused(let id): "refused \(id)"
        case .expiring(let milliseconds): "expiring \(milliseconds)"
        case .resumed: "resumed"
        case .begin(let id, let name): "begin \(id) \(name.split(whereSeparator: \.isNewline).joined(separator: " "))"
        case .end(let id): "end \(id)"
        case .closed: "closed"
        }
    }

    /// - returns: nil for a line that is no message.
    init?(line: String) {
        let words = line.split(separator: " ", maxSplits: 2)
        let number = words.dropFirst().first.flatMap { Int($0) }
        switch (words.first, number) {
        case ("suspending", let number?): self = .suspending(milliseconds: number)
        case ("granted", let number?): self = .granted(id: number)
        case ("refused", let number?): self = .refused(id: number)
        case ("expiring", let number?): self = .expiring(milliseconds: number)
        case ("resumed", nil): self = .resumed
        case ("begin", let number?): self = .begin(id: number, name: words.count > 2 ? String(words[2]) : "")
        case ("end", let number?): self = .end(id: number)
        case ("closed", nil): self = .closed
        default: return nil
        }
    }
}
