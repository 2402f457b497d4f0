//! Reads `MessagePack` value by value, without recursion and without allocating: what is not wanted is jumped over.

use rmp::Marker;

use super::batch::DecodeError;

/// What comes next. Of an array or a map only its length; its items follow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'a> {
    Nil,
    /// Unsigned, or signed in the same 64 bits.
    Integer(u64),
    Text(&'a [u8]),
    Bytes(&'a [u8]),
    Array(u32),
    /// Pairs.
    Map(u32),
    /// A number with a fraction, a truth value, an extension.
    Other,
}

/// The rest of the bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(DecodeError::Short)?;
        self.rest = rest;
        Ok(taken)
    }

    /// An unsigned number of so many bytes, at most eight.
    fn number(&mut self, bytes: usize) -> Result<u64, DecodeError> {
        Ok(self.take(bytes)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// The next value, or the head of the next array or map.
    pub(super) fn next(&mut self) -> Result<Value<'a>, DecodeError> {
        let marker = Marker::from_u8(self.take(1)?[0]);
        Ok(match marker {
            Marker::Null => Value::Nil,
            Marker::FixPos(number) => Value::Integer(number.into()),
            Marker::FixNeg(number) => Value::Integer(i64::from(number) as u64),
            Marker::U8 => Value::Integer(self.number(1)?),
            Marker::U16 => Value::Integer(self.number(2)?),
            Marker::U32 => Value::Integer(self.number(4)?),
            Marker::U64 | Marker::I64 => Value::Integer(self.number(8)?),
            Marker::I8 => Value::Integer(i64::from(self.number(1)? as i8) as u64),
            Marker::I16 => Value::Integer(i64::from(self.number(2)? as i16) as u64),
            Marker::I32 => Value::Integer(i64::from(self.number(4)? as i32) as u64),
            Marker::FixStr(length) => Value::Text(self.take(length.into())?),
            Marker::Str8 => self.sized(1).map(Value::Text)?,
            Marker::Str16 => self.sized(2).map(Value::Text)?,
            Marker::Str32 => self.sized(4).map(Value::Text)?,
            Marker::Bin8 => self.sized(1).map(Value::Bytes)?,
            Marker::Bin16 => self.sized(2).map(Value::Bytes)?,
            Marker::Bin32 => self.sized(4).map(Value::Bytes)?,
            Marker::FixArray(length) => Value::Array(length.into()),
            Marker::Array16 => Value::Array(self.number(2)? as u32),
            Marker::Array32 => Value::Array(self.number(4)? as u32),
            Marker::FixMap(length) => Value::Map(length.into()),
            Marker::Map16 => Value::Map(self.number(2)? as u32),
            Marker::Map32 => Value::Map(self.number(4)? as u32),
            Marker::True | Marker::False => Value::Other,
            Marker::F32 => self.over(4)?,
            Marker::F64 => self.over(8)?,
            // An extension has a byte for its type.
            Marker::FixExt1 => self.over(2)?,
            Marker::FixExt2 => self.over(3)?,
            Marker::FixExt4 => self.over(5)?,
            Marker::FixExt8 => self.over(9)?,
            Marker::FixExt16 => self.over(17)?,
            Marker::Ext8 => self.extension(1)?,
            Marker::Ext16 => self.extension(2)?,
            Marker::Ext32 => self.extension(4)?,
            Marker::Reserved => return Err(DecodeError::Malformed),
        })
    }

    fn sized(&mut self, bytes: usize) -> Result<&'a [u8], DecodeError> {
        let length = self.number(bytes)?;
        self.take(usize::try_from(length).map_err(|_| DecodeError::Short)?)
    }

    fn over(&mut self, bytes: usize) -> Result<Value<'a>, DecodeError> {
        self.take(bytes).map(|_| Value::Other)
    }

    fn extension(&mut self, bytes: usize) -> Result<Value<'a>, DecodeError> {
        self.sized(bytes)?;
        self.over(1)
    }

    /// Jumps over the next value, with all that is in it.
    pub(super) fn skip(&mut self) -> Result<(), DecodeError> {
        // Each item takes a byte at least, so however long a head says it is, this ends with the bytes.
        let mut left = 1_u64;
        while left > 0 {
            left -= 1;
            left = left.saturating_add(match self.next()? {
                Value::Array(length) => length.into(),
                Value::Map(pairs) => u64::from(pairs) * 2,
                _ => 0,
            });
        }
        Ok(())
    }

    /// The next value by itself; the reader goes on behind it.
    pub(super) fn split(&mut self) -> Result<Self, DecodeError> {
        let before = self.rest;
        self.skip()?;
        Ok(Self { rest: &before[..before.len() - self.rest.len()] })
    }

    /// The next value as a list that is read by the caller; of anything else 0 items, which are jumped over.
    pub(super) fn array(&mut self) -> Result<Option<u32>, DecodeError> {
        let mut ahead = *self;
        if let Value::Array(length) = ahead.next()? {
            *self = ahead;
            return Ok(Some(length));
        }
        self.skip()?;
        Ok(None)
    }

    /// The next value if it is an integer; anything else is jumped over.
    pub(super) fn integer(&mut self) -> Result<Option<u64>, DecodeError> {
        let mut ahead = *self;
        if let Value::Integer(number) = ahead.next()? {
            *self = ahead;
            return Ok(Some(number));
        }
        self.skip()?;
        Ok(None)
    }

    /// The next value if it is text; anything else is jumped over.
    pub(super) fn text(&mut self) -> Result<Option<&'a [u8]>, DecodeError> {
        let mut ahead = *self;
        if let Value::Text(text) = ahead.next()? {
            *self = ahead;
            return Ok(Some(text));
        }
        self.skip()?;
        Ok(None)
    }
}
