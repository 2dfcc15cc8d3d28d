//! stub
use crate::catalog::*; use crate::error::*; use crate::plan::*; use crate::sql::normalize::Literal;
pub struct Values<'a> { pub text: &'a str, pub literals: &'a [Literal], pub params: &'a [Param<'a>], pub standard_conforming_strings: bool }
#[derive(Clone, Copy, Debug)]
pub struct Param<'a> { pub oid: u32, pub format: i16, pub value: Option<&'a [u8]> }
pub enum Route { One(ShardId), Several(Vec<ShardId>), Any, Home, Nowhere }
pub fn shards(_t: &Target, _v: &Values<'_>, _c: &Catalog, _w: bool) -> Result<Route> { Ok(Route::Home) }
impl Route { pub fn describe(&self, _c: &Catalog) -> String { String::new() } }
