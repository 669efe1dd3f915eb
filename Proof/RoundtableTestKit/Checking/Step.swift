/// One operation of a recorded transaction, with its result.
///
/// Elements, values and items are chosen by the test, and each is written at most once to the same list, register or queue: this is how
/// the checker knows which transaction wrote what another one read.
public enum Step: Sendable, Hashable, Codable {
    /// Appends an element to a list.
    case append(list: Int, element: Int)
    /// Reads a list. The elements are in the order of the list.
    case list(Int, elements: [Int] = [])
    /// Writes a register.
    case write(register: Int, value: Int)
    /// Reads a register; nil while it was never written.
    case value(register: Int, value: Int? = nil)
    /// Moves an amount between two accounts of a bank.
    case transfer(from: Int, to: Int, amount: Int)
    /// Reads all accounts of a bank. Their sum must be the total.
    case balances([Int] = [], total: Int)
    /// Puts an item into a queue.
    case enqueue(item: Int)
    /// Takes the oldest item of a queue out of it; nil when the queue was empty.
    case claim(item: Int? = nil)

    /// Whether the step changes nothing.
    public var isRead: Bool {
        switch self {
        case .list, .value, .balances: true
        case .append, .write, .transfer, .enqueue, .claim: false
        }
    }
}

extension Step: CustomStringConvertible {
    public var description: String {
        switch self {
        case .append(let list, let element): "append \(element) to list \(list)"
        case .list(let list, let elements): "read list \(list) = \(Self.shortened(elements))"
        case .write(let register, let value): "write \(value) to register \(register)"
        case .value(let register, let value): "read register \(register) = \(value.map(String.init) ?? "nothing")"
        case .transfer(let from, let to, let amount): "transfer \(amount) from account \(from) to \(to)"
        case .balances(let balances, _): "read balances = \(balances)"
        case .enqueue(let item): "enqueue \(item)"
        case .claim(let item): "claim = \(item.map(String.init) ?? "nothing")"
        }
    }
}

extension Step {
    /// A long list in short: its first and last elements.
    private static func shortened(_ elements: [Int]) -> String {
        guard elements.count > 10 else { return "\(elements)" }
        func joined(_ part: ArraySlice<Int>) -> String { part.map(String.init).joined(separator: ", ") }
        return "[\(joined(elements.prefix(2))), … \(elements.count - 8) more …, \(joined(elements.suffix(6)))]"
    }
}

// MARK: Journals

/// The text of a step in a journal: a letter, the object, and after `=` the numbers.
extension Step {
    var text: String {
        func joined(_ numbers: [Int]) -> String { numbers.map(String.init).joined(separator: ",") }
        return switch self {
        case .append(let list, let element): "a\(list)=\(element)"
        case .list(let list, let elements): "l\(list)=\(joined(elements))"
        case .write(let register, let value): "w\(register)=\(value)"
        case .value(let register, let value): "v\(register)=\(value.map(String.init) ?? "")"
        case .transfer(let from, let to, let amount): "t\(from)=\(to),\(amount)"
        case .balances(let balances, let total): "b\(total)=\(joined(balances))"
        case .enqueue(let item): "e0=\(item)"
        case .claim(let item): "c0=\(item.map(String.init) ?? "")"
        }
    }

    /// - returns: nil when the text is not that of a step.
    init?(letter: UInt8, object: Int, numbers: [Int]) {
        switch (Character(Unicode.Scalar(letter)), numbers.count) {
        case ("a", 1): self = .append(list: object, element: numbers[0])
        case ("l", _): self = .list(object, elements: numbers)
        case ("w", 1): self = .write(register: object, value: numbers[0])
        case ("v", 0...1): self = .value(register: object, value: numbers.first)
        case ("t", 2): self = .transfer(from: object, to: numbers[0], amount: numbers[1])
        case ("b", _): self = .balances(numbers, total: object)
        case ("e", 1): self = .enqueue(item: numbers[0])
        case ("c", 0...1): self = .claim(item: numbers.first)
        default: return nil
        }
    }
}
