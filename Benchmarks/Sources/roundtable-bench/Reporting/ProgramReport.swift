import Foundation

/// A report about whole programs, whose JSON is its properties.
protocol ProgramReport: Encodable {
    func table() -> String
}

extension ProgramReport {
    func json() throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        encoder.keyEncodingStrategy = .convertToSnakeCase
        return String(decoding: try encoder.encode(self), as: UTF8.self)
    }
}
