import Foundation
import Roundtable
import RoundtableToolSupport

/// The WAL as a bar: what a checkpoint has copied, what it has not, and how far each read lets it copy.
struct TopBar {
    static let copied: Character = "█"
    static let left: Character = "░"

    let wal: WALHealth
    let width: Int

    /// The letter of a pin in the bar.
    static func letter(_ index: Int) -> Character {
        Character(Unicode.Scalar(UInt8(ascii: "a") + UInt8(clamping: min(index, 25))))
    }

    /// The first read mark is the one that holds most, as in `WALHealth.pins`. A letter stands where a checkpoint must stop for that read.
    func text(pins count: Int) -> StyledText {
        guard wal.committedFrames > 0, width > 0 else {
            return StyledText(String(repeating: "·", count: max(0, width)), .dim)
        }
        let position = { (frames: Int) in min(width, max(0, frames * width / wal.committedFrames)) }
        let end = position(wal.backfilledFrames)
        var cells = (0..<width).map { $0 < end ? Self.copied : Self.left }
        // The read that holds most is written last, so that no other one covers its letter.
        for (index, pin) in wal.pins.prefix(count).enumerated().reversed() {
            cells[min(width - 1, position(wal.committedFrames - pin.heldFrames))] = Self.letter(index)
        }
        var text = StyledText()
        for cell in cells {
            text.append(String(cell), cell == Self.copied ? .good : cell == Self.left ? .dim : .bad)
        }
        return text.joined
    }
}
