"""What words mean, in English and Chinese: a table of concepts with the words and phrases that stand for each.

It knows no tool. A request in one language finds a tool that is described in the other because both have the same
concepts; how words are looked up is in `words.py`.
"""

ACTIONS = {
    "add": (
        "add, put, place, throw, toss, drop, include, append, insert, buy, purchase, grab, stick, pop, pick up",
        "加, 加上, 加入, 加到, 加进, 加个, 加点, 添加, 添, 放, 放入, 放到, 放进, 放在, 买, 购买, 买点, 买些, 订购, 采购, 来, 来点, 追加",
    ),
    "need": (
        "need, want, would like, i'd like, i would like, we'd like, i want, i need, we need, we want, i'll have, i'll take, out of, ran out of, run out of, running out of, running low on, low on,"
        " give me, could use, can i get, could i get, can we get, could we get, could we have, can i have, could i have, can we have, may i have, must get, short of, order",
        "需要, 想要, 想买, 要买, 缺, 用完了, 没了, 快没了, 吃完了, 喝完了, 不够了",
    ),
    "remove": (
        "remove, delete, take out, take off, take away, drop, get rid of, clear, erase, throw out, discard,"
        " don't want, do not want, no longer want, take",
        "删除, 删掉, 删了, 删, 拿掉, 拿走, 拿出, 拿出来, 移除, 移出, 移走, 去掉, 去除, 取出, 不要了, 不要, 清除",
    ),
    "find": (
        "find, search, search for, look for, look up, looking for, lookup, query, check, check for, locate,"
        " do you have, have you got, do you sell, do you stock, do you carry, got any, is there, are there, any,"
        " have we got, do we have, sell, how much is, how much are, what does, price of",
        "查, 查找, 查询, 查一下, 查下, 找下, 搜下, 看下, 查查, 查看, 查一查, 搜, 搜索, 搜一下, 搜寻, 检索, 找, 找一下, 找找, 寻找, 看看, 看一下, 有没有, 有无,"
        " 是否有, 还有没有, 还有, 还剩, 剩多少, 还有多少, 还剩多少, 有多少, 剩下, 多少钱, 卖不卖, 卖, 想找, 哪里有",
    ),
    "show": (
        "show, list, display, view, see, what's in, what is in, what's on, what is on, what do i have, what do we have, what have i got, what have we got, what is there, tell, print,"
        " give an overview of, let see, what are, what's, what is, draw, read",
        "显示, 展示, 列出, 列一下, 看, 看看, 看一下, 查看, 有什么, 有哪些, 有些什么, 都有什么, 都有哪些, 里面有, 告诉",
    ),
    "open": (
        "open, go, go to, go back to, take me, take me back, bring me, take me to, take me back to, bring me to, get me to, navigate, navigate to,"
        " visit, browse, jump to, switch to, head to, back to, return to, proceed to, proceed, lead me to, bring up,"
        " pull up, move to, continue to",
        "打开, 去, 进入, 进到, 跳转, 跳转到, 跳到, 回到, 返回, 返回到, 前往, 转到, 带我去, 浏览, 逛, 逛逛, 切换到, 回",
    ),
    "create": (
        "create, make, new, set up, schedule, plan, register, generate, produce, build, compile, prepare, draw up,"
        " format, enter, start a, define, establish, arrange, write down, note down, note, jot down",
        "新建, 创建, 建立, 新增, 生成, 做, 做一份, 做个, 制作, 安排, 建, 建一个, 整理, 整理成, 出一份, 导出, 编制, 记录, 记下, 记一下,"
        " 设立, 登记, 预定, 定一个, 排一个",
    ),
    "remind": (
        "remind, reminder, remember to, don't forget to, do not forget to, don't let me forget, have to, must,"
        " need to, ought to, i need to, we need to, i have to, we have to, i must, we must, i should, we should,"
        " set a reminder, set reminder, set me a reminder, add a reminder, reminder to",
        "提醒, 提醒我, 记得, 别忘了, 不要忘记, 别忘记, 要记得",
    ),
    "update": (
        "update, mark, set, change, tick off, check off, cross off, flag, move, modify, edit, adjust,"
        " mark off, tick, put down as",
        "更新, 标记, 标记为, 标为, 标成, 设为, 设置, 设成, 设置为, 改为, 改成, 修改, 更改, 变更, 勾掉, 划掉, 标注",
    ),
    "stat": (
        "scan, add up, sum up, total, count, how much, how many, statistics, stats, summarise, summarize, calculate,"
        " compute, tally, overall, summary, overview, totals, breakdown, figures",
        "统计, 统计一下, 汇总, 汇总一下, 总计, 合计, 一共, 总共, 盘点, 计算, 算一下, 总结, 概况, 总览, 情况",
    ),
    "switch": (
        "turn on, turn off, switch on, switch off, switch, dim, activate, deactivate, power on, power off, shut off,"
        " enable, disable, put on, toggle",
        "打开, 开, 开启, 关, 关掉, 关闭, 关上, 关了, 开一下, 关一下, 启动, 切换, 调暗",
    ),
    "get": ("get, fetch, give me, bring, retrieve, pull", "获取, 取得, 拿, 给我"),
}
RELATED = {
    "need": ("add", "create"),
    "remind": ("create",),
    "create": ("add",),
    "add": ("create",),
    "get": ("add", "show", "find", "stat"),
    "show": ("find", "get", "stat", "open"),
    "find": ("show", "get", "stat"),
    "stat": ("show", "get", "find"),
    "open": ("show",),
    "remove": (),
    "update": (),
    "switch": (),
}
"""What an action may also be meant by, with less weight."""
READING = frozenset({"find", "show", "stat", "get", "open"})
"""Actions that a question may ask for."""

THINGS = {
    "cart": ("cart, basket, trolley, shopping cart, shopping basket, shopping bag", "购物车, 购物篮, 车里, 车子"),
    "groceries": (
        "grocery, groceries, grocery list, shopping list, shopping, list of groceries",
        "购物清单, 购物单, 采购清单, 采购单, 买菜清单, 购买清单, 购物列表, 杂货, 日用品清单",
    ),
    "list": ("list, lists", "清单, 列表, 单子"),
    "task": (
        "task, tasks, to-do, todo, to-dos, todos, to-do list, todo list, to do list, task list, chore, chores",
        "任务, 待办, 待办事项, 事项, 待办清单, 任务清单, 任务列表",
    ),
    "event": ("event, events, calendar event, calendar entry", "活动, 事件, 日程"),
    "calendar": ("calendar, diary, agenda, schedule", "日历, 日程, 日程表, 行程"),
    "money": (
        "budget, spend, spent, spending, cost, costs, expense, expenses, expenditure, money, outgoings, bills",
        "花, 花了, 花费, 花销, 花掉, 开销, 支出, 预算, 费用, 消费, 开支, 花在, 用了, 账单, 用掉",
    ),
    "price": ("price, prices, cost, expensive, cheap, euros, euro", "价格, 价钱, 多少钱, 元, 块"),
    "product": ("product, products, item, items, goods, article", "商品, 产品, 货品, 东西"),
    "material": (
        "material, materials, raw material, raw materials, ingredient, ingredients",
        "原料, 材料, 物料, 原材料, 食材, 物资",
    ),
    "inventory": (
        "inventory, stock, stocks, stock level, stock levels, stockroom, warehouse",
        "库存, 存货, 存量, 仓库, 库房, 库存量",
    ),
    "stats": (
        "stats, statistics, summary, overview, totals, breakdown, figures",
        "统计, 汇总, 总览, 概况, 统计数据, 统计信息",
    ),
    "report": ("report, reports, spreadsheet", "报表, 报告"),
    "intent": ("intent, intents, intention", "意图"),
    "page": ("page, screen, site, view, tab", "页面, 页, 网页, 界面"),
    "home": ("home, homepage, home page, main page, front page, start page, landing page", "首页, 主页, 主界面"),
    "category": (
        "category, categories, section, aisle, department, area, range, shelf",
        "分类, 类别, 类目, 专区, 品类, 区域, 区, 栏目, 类",
    ),
    "checkout": (
        "checkout, check out, pay, paying, till, payment, cash desk, checking out",
        "结账, 结算, 付款, 买单, 收银台, 支付, 结帐, 付钱",
    ),
    "orders": (
        "orders, past orders, order history, my orders, purchases, purchase history, previous orders, ordered",
        "订单, 购买记录, 历史订单, 买过",
    ),
    "account": (
        "account, profile, my details, settings, password, my data, address, my address, payment method, personal details",
        "账户, 账号, 帐户, 帐号, 个人中心, 个人资料, 密码",
    ),
    "card": ("card, cards, tile, tiles", "卡片"),
    "details": ("details, detail, information, info, product page, detail page", "详情, 信息, 资料, 详细信息, 商品页, 商品页面, 产品页面, 产品页, 商品详情, 详情页, 详情页面, 产品详情"),
    "house": ("house, home assistant, household", "家里, 家"),
    "light": ("light, lights, lamp, lamps", "灯, 电灯, 灯光, 台灯"),
    "climate": ("climate, heating, thermostat, heater, air conditioning, air conditioner", "空调, 暖气, 地暖"),
    "fan": ("fan", "风扇, 电扇"),
    "cover": ("blind, blinds, shutter, shutters, curtain, curtains", "窗帘, 百叶窗"),
    "lock": ("lock", "门锁"),
    "plug": ("socket, plug, outlet", "插座, 开关"),
    "month": ("month", "月, 月份"),
    "status": ("status, state", "状态"),
    "customer": ("customer, customers, client, clients", "客户, 顾客"),
    "user": ("user, users, member, members", "用户, 成员"),
    "message": ("message, messages", "消息, 短信"),
    "mail": ("email, emails, e-mail, mail, mails", "邮件, 电子邮件"),
    "file": ("file, files, document, documents, folder", "文件, 文档, 文件夹"),
    "invoice": ("invoice, invoices", "发票"),
    "note": ("note, notes, memo", "笔记, 备忘, 备忘录"),
    "contact": ("contact, contacts, address book", "联系人, 通讯录"),
    "project": ("project, projects", "项目"),
    "ticket": ("ticket, tickets, issue, issues, case", "工单, 问题单"),
    "device": ("device, devices, appliance", "设备, 电器"),
    "recipe": ("recipe, recipes", "食谱, 菜谱"),
    "weather": ("weather, forecast, temperature outside, rain, raining, sunny", "天气, 气温, 下雨, 天气预报"),
    "travel": (
        "flight, flights, train, trains, hotel, hotels, taxi, uber, cab, trip, holiday, vacation, plane, bus, airport",
        "机票, 航班, 火车票, 火车, 高铁, 高铁票, 酒店, 宾馆, 出租车, 打车, 旅行, 旅游, 飞机, 车票",
    ),
    "news": ("news, headlines, newspaper", "新闻, 头条"),
    "writing": (
        "poem, poems, poetry, story, essay, letter, song, novel, haiku, limerick, joke, jokes, blog, code, script,"
        " speech, riddle",
        "诗, 一首诗, 诗歌, 故事, 文章, 作文, 歌, 小说, 笑话, 代码, 程序, 信, 谜语, 段子",
    ),
    "language": (
        "translate, translation, french, german, spanish, english, chinese, italian, japanese",
        "翻译, 译成, 法语, 德语, 英语, 英文, 中文, 日语, 西班牙语",
    ),
    "media": (
        "music, movie, movies, film, films, video, playlist, podcast, radio, television, tv, photo, picture, image",
        "音乐, 电影, 视频, 歌曲, 照片, 图片, 电视, 播客",
    ),
    "dining": ("restaurant, restaurants, pizza place, takeaway", "餐厅, 饭店, 外卖, 餐馆"),
    "finance": ("stock market, shares, bitcoin, exchange rate, stock price, mortgage, loan", "股票, 股价, 汇率, 比特币, 贷款"),
    "sport": ("football, soccer, match, score, game, tennis, basketball", "足球, 比赛, 比分, 篮球, 球赛"),
    "politics": ("president, election, prime minister, government, capital of", "总统, 选举, 首都, 政府"),
    "maths": ("square root, equation, multiply, divided by, plus, times", "平方根, 方程, 等于几, 等于多少"),
    "doctor": ("doctor's advice, medicine, symptoms, diagnose", "看病, 症状, 诊断"),
}
FOREIGN = frozenset(
    {"weather", "travel", "news", "writing", "language", "media", "dining", "finance", "sport", "politics", "maths"}
    | {"doctor", "mail", "message", "recipe"}
)
"""What people ask assistants for; a request about one of these is for a tool that speaks of it, or for none."""
OTHER_VERBS = (
    "write, translate, book, play, send, email, call, phone, explain, sing, recommend, suggest, order a taxi, draft,"
    " compose, describe, teach, define, solve, convert, print, upload, download, drive, cook, dance, compare, predict,"
    " text, post, tweet, invest, sell, rent, hire, pay, transfer, refund, ship, return, track, restart, reboot, install"
    " record, paint, design, debug, fix, repair, summarize this, rewrite, proofread, review, subscribe, vote",
    "写, 翻译, 预订, 订, 播放, 放一首, 发送, 发, 打电话, 解释, 唱, 推荐, 建议, 讲, 画, 教, 下载, 上传, 转账, 退款, 发货, 退货, 安装,"
    " 重启, 维修, 预约, 写一首, 讲个, 讲一个, 说个, 算命, 唱首",
)
"""Verbs of requests for something else: a clause that begins with one wants a tool that has it."""

VALUES = {
    "bought": ("bought, purchased, got, picked up, have got, acquired, paid for", "买了, 买好了, 买到了, 已买, 买完了, 已购买, 买好"),
    "in cart": ("in cart, in the cart, in the basket, in the trolley, in my cart", "在购物车里, 放进购物车, 放进购物车了, 已在购物车, 在车里, 放购物车, 在购物车"),
    "needed": ("needed, needed again, still needed, still need, necessary, missing", "需要买, 还需要, 要买, 待买, 还要买, 缺货"),
    "done": (
        "done, finished, complete, completed, done with, finished with, ready, accomplished, over, ticked off, checked off",
        "完成, 完成了, 做完, 做完了, 做好了, 已完成, 搞定, 搞定了, 办完了, 办好了, 弄好了, 好了, 结束了",
    ),
    "in progress": (
        "in progress, started, working on, begun, doing, under way, underway, ongoing, on it, busy with, have started, began",
        "进行中, 正在进行, 正在做, 开始了, 开始做, 正在, 在做, 已经开始",
    ),
    "to do": ("to do, not done, open again, not started, undone, reopen, back to do", "待办, 未完成, 没做完, 未开始, 还没做, 没完成, 待处理"),
    "high": ("high, urgent, important, critical", "高, 紧急, 重要"),
    "medium": ("medium, normal, average", "中, 普通, 中等"),
    "low": ("low, minor", "低, 不急"),
    "open": ("open", "打开, 未关闭"),
    "closed": ("closed, close", "关闭, 已关闭"),
    "dairy": ("dairy, dairy products, milk products", "乳制品, 奶制品, 乳品, 奶类"),
    "bakery": ("bakery, baked goods, bread and pastries, baked", "烘焙, 面包店, 面包房, 面包糕点, 糕点, 面包区, 烘焙食品"),
    "fruit": ("fruit, fruits", "水果, 果类"),
    "vegetables": ("vegetables, vegetable, veg, veggies, veggie, greens", "蔬菜, 青菜, 菜类"),
    "meat": ("meat, meats, butcher", "肉, 肉类, 肉品, 鲜肉"),
    "fish": ("fish, seafood, fishmonger", "鱼, 鱼类, 海鲜, 水产"),
    "drinks": ("drinks, drink, beverages, beverage", "饮料, 酒水, 饮品"),
    "snacks": ("snacks, snack, sweets, nibbles", "零食, 小吃, 点心"),
    "pantry": ("pantry, staples, dry goods, store cupboard", "粮油, 调味品, 调料, 干货, 储藏, 食品柜, 粮油调味"),
    "frozen": ("frozen, frozen food, frozen foods, freezer", "冷冻, 冷冻食品, 速冻, 冰冻"),
    "household": ("household, household goods, cleaning, household products, cleaning supplies", "家居, 日用品, 家庭用品, 清洁用品, 家居用品, 生活用品"),
    "turn on": ("turn on, switch on, put on, power on, activate, enable, start, on", "打开, 开启, 开, 启动, 开一下"),
    "turn off": (
        "turn off, switch off, shut off, power off, deactivate, disable, turn out, stop, off",
        "关, 关掉, 关闭, 关上, 关了, 关一下",
    ),
    "toggle": ("toggle", "切换"),
    "kitchen": ("kitchen", "厨房"),
    "bedroom": ("bedroom", "卧室, 睡房"),
    "living room": ("living room, lounge, sitting room", "客厅, 起居室"),
    "bathroom": ("bathroom", "浴室, 卫生间, 洗手间"),
    "hallway": ("hallway, hall, corridor", "走廊, 过道, 玄关"),
    "garage": ("garage", "车库"),
    "garden": ("garden, yard", "花园, 院子"),
    "office": ("office", "办公室"),
    "study": ("study", "书房"),
    "dining room": ("dining room", "餐厅, 饭厅"),
    "balcony": ("balcony", "阳台"),
    "basement": ("basement, cellar", "地下室"),
    "attic": ("attic, loft", "阁楼"),
    "groceries": ("groceries, food", "食品, 买菜, 杂货, 日用, 吃饭, 伙食, 食物"),
    "rent": ("rent", "房租, 租金"),
    "energy": ("energy, electricity, power, gas", "能源, 水电, 电费, 电, 水电费"),
    "leisure": ("leisure, fun, entertainment, free time", "休闲, 娱乐"),
    "health": ("health, medical", "健康, 医疗, 保健"),
    "transport": ("transport, travel, commuting", "交通, 出行"),
}
"""Values that places take, whatever the language they are written in: statuses, categories, rooms."""

FUNCTION = {
    "polite": (
        "please, pls, plz, kindly, hey, hi, hello, ok, okay, so, just, now, also, too, as well, could you, can you,"
        " would you, will you, can i, could i, may i, can we, could we, i'd like to, i would like to, we'd like to,"
        " i'd like to know, i want to know, can you tell me, could you tell me, tell me, let me know, do you know,"
        " i want to, i want you to, i need you to, i'd like you to, let's, let us, let me, help me, help, for me, for us,"
        " thanks, thank you, many thanks, thx, right away, quickly, if possible, again, go ahead and, maybe, actually,"
        " well, oh, dear, would you mind, do me a favour and, me, us, myself, today please, then, next, afterwards, first,"
        " for now, asap, cheers, would you please, i am, i'm, we are, we're, i will, i'll, we'll, would be nice",
        "请, 请问, 我想知道, 想知道, 我想了解, 想了解, 告诉我, 请告诉我, 只列, 只列出, 只看, 只要, 只包含, 只含, 仅列出, 麻烦, 麻烦您, 麻烦你, 帮我, 帮忙, 帮我们, 帮, 给我, 替我, 为我, 能不能, 能否, 可以, 可不可以, 你能, 您能, 你可以,"
        " 我想, 我要, 我想要, 我们, 咱们, 我, 你, 您, 你们, 谢谢, 多谢, 谢谢你, 谢谢您, 一下, 吧, 吗, 呢, 啊, 哦, 嗯, 好吗, 行吗, 可以吗,"
        " 劳驾, 顺便, 再, 也, 还, 都, 就, 只, 仅, 现在, 马上, 一些, 一点, 点, 些, 的话, 所有, 一个, 然后, 接着, 另外, 此外, 还要, 已经, 已, 想, 要,"
        " 能, 会, 咱们家, 我们家, 我的, 您的, 你的, 那些, 这些, 这个, 那个, 一份, 一条, 一项, 新的, 个, 一种, 一共",
    ),
    "determiner": (
        "a, an, the, some, any, my, our, your, his, her, their, this, that, these, those, more, another, all, of, s, few,"
        " bit, little, a bit of, a little, a few, a new, every, each, other, no, another one, one of",
        "的, 之, 某, 各, 各类, 各种, 全部",
    ),
    "pronoun": ("it, them, that one, this one, those, these, they, one, ones", "它, 它们, 他们, 这个, 那个, 这些, 那些"),
    "preposition": (
        "to, into, in, on, onto, from, off, out, out of, at, for, of, with, about, inside, by, as, per, under, over, up,"
        " called, named, titled, regarding, concerning, away, back, down, is, are, was, were, has, have, had, been, be,"
        " i've, we've, i have, we have, i, we, you, there, here, around, within, than, through, do, does, did, that, if,"
        " should, will, shall, still, already, left, available, currently, right, it's, its, entitled, which, left in, went, go, goes, went to, going",
        "把, 将, 从, 往, 向, 给, 在, 到, 里, 里面, 中, 上, 内, 去, 对, 为, 叫, 名为, 叫做, 名叫, 称为, 关于, 有关, 是, 有, 了, 着, 过, 用, 以,"
        " 下, 里边, 当中, 之中, 进, 来, 出, 成, 掉, 还是, 属于",
    ),
    "word": (
        "book club, to-do app",
        "开会, 开心果, 聚会, 开学, 家长会, 会议, 买菜, 做饭, 看病, 看医生, 看牙医, 打电话, 会餐, 聚餐, 开车, 关门, 上课, 上班, 下班, 到家, 来访,"
        " 去世, 放学, 放假, 加班, 加油, 查房, 做客, 做家务, 建军节, 音乐会, 运动会, 晚会, 舞会, 里脊肉, 上海青, 小米, 来客, 开水, 生日会, 用药, 上门,"
        " 下午茶, 加餐, 出差, 出门, 进口, 中药, 花生, 花生酱, 花菜, 菜花, 花椒, 点心, 会计, 开胃菜, 要点, 过年, 过节, 家具, 想法, 能量, 加湿器",
    ),
    "attribute": (
        "id, code, number, sku, article number, the price of, price of, the amount of, the quantity of, information on,"
        " information about, info on, info about, the stock of, stock of, the id, the code, the number",
        "数量, 库存量, 余量, 编码, 代码, 多少库存, 的数量",
    ),
    "here": (
        "in stock, in store, in the shop, in the store, in the warehouse, in your shop, on hand, in here, available",
        "仓库里, 仓库中, 仓库里面, 店里, 库里, 这里, 这儿, 你们这里, 你们店里, 你们这儿, 库房里, 仓库",
    ),
    "and": ("and, plus, as well as, along with, together with, and also", "和, 与, 以及, 跟, 还有, 及, 并, 加上, 外加"),
    "question": (
        "what, which, who, whom, when, where, why, how, whose, what's, who's, where's, how's, what kind of, what sort of, what kinds of, what sorts of, what types of, which kinds of, which types of, which kind of, what type of",
        "什么, 多少钱, 哪, 哪些, 哪个, 谁, 怎么, 怎样, 怎么样, 几, 多少, 是多少, 为什么, 何时, 哪里, 吗, 呢, 什么时候, 哪种, 几个",
    ),
    "something": (
        "something, anything, stuff, things, thing, someone, something else, a thing, an item, items, item",
        "东西, 一样东西, 点东西, 一些东西, 什么东西, 某样东西",
    ),
    "everything": ("everything, all of it, all of them, the lot", "全部, 所有东西, 所有商品, 全部商品, 一切"),
}
"""Words that hold a sentence together; what is wanted stands between them."""
